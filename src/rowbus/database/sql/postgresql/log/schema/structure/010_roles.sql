-- Create the roles pgq_reader, pgq_writer and pgq_admin (a member of both) where they are missing; they are the
-- whole server's, so they may be there from another database, or be created by one at this moment.
-- Locks nothing; returns nothing. Needs CREATEROLE only while one is missing.
do $$
declare
    v_role record;
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
end;
$$;

-- The schema everything lives in.
create schema if not exists pgq;
