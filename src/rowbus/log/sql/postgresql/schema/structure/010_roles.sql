-- Create the roles pgq_reader, pgq_writer and pgq_admin (a member of both) where they are missing; they are the
-- whole server's, so they may be there from another database, or be created by one at this moment. An administrator
-- that is there and no member of both becomes one; where this role may not do that, a warning says the command.
-- Locks nothing but what it creates; returns nothing. Needs CREATEROLE only while one is missing.
do $$
declare
    v_role record;
    v_missing text;
begin
    for v_role in
        select r.name, r.membership
        from (
            values ('pgq_reader', ''), ('pgq_writer', ''), ('pgq_admin', 'in role pgq_reader, pgq_writer')
        ) as r (name, membership)
        where to_regrole(r.name) is null
    loop
        begin
            execute format('create role %I %s', v_role.name, v_role.membership);
        exception
            when duplicate_object or unique_violation then null;
        end;
    end loop;
    select string_agg(r.name, ', ' order by r.name) into v_missing
    from (values ('pgq_reader'), ('pgq_writer')) as r (name)
    where not exists (
        select from pg_catalog.pg_auth_members as m
        where m.roleid = r.name::regrole and m.member = 'pgq_admin'::regrole
    );
    if v_missing is not null then
        execute format('grant %s to pgq_admin', v_missing);
    end if;
exception
    when insufficient_privilege then
        if v_missing is null then
            raise insufficient_privilege using message = format(
                'role %I may not create roles. Have an administrator of the server run, once: %s; then install again',
                current_user,
                'create role pgq_reader; create role pgq_writer; create role pgq_admin in role pgq_reader, pgq_writer'
            );
        end if;
        raise warning 'the role pgq_admin is no member of %: have a superuser run grant % to pgq_admin',
            v_missing, v_missing;
end;
$$;

-- Whether this makes a new schema decides who may use it (see grants/zz_apply.sql). Where there are PgQ's tables
-- already, what was granted stays.
select set_config('rowbus.log_is_new', (to_regclass('pgq.queue') is null)::text, false);

-- The schema everything lives in.
create schema if not exists pgq;
