-- Tell the logs and make generated code as soon as a trigger of ours is created or a table with one is altered, instead of
-- at the next row or maintenance. Looks at the command's own table, its partitions and, of a schema, its tables alone
-- (`offset 0` keeps the planner to that). Makes no code while a maintenance is at it, and never fails the command that it
-- follows. Locks other runs of maint_capture out until the transaction ends, if it makes code.
create or replace function pgq._table_changed()
returns event_trigger
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
set jit = off -- in a database of many tables the plan would be compiled for each command, which takes longer than it runs
as $$
declare
    v_rewritten oid[];
    v_stale oid[];
begin
    v_rewritten := string_to_array(coalesce(current_setting('rowbus.rewritten', true), ''), ',');
    perform set_config('rowbus.rewritten', '', true) where v_rewritten <> '{}';
    select array_agg(found.table_id) filter (where found.is_stale) into v_stale
    from (
        select
            s.table_id,
            (
                s.table_id = coalesce(t.tgrelid, c.oid)
                and s.generated = any(case when t.oid is null and not c.relispartition then '{stale}' else '{no,stale}' end::text[])
                or s.is_inherited and s.generated <> 'yes'
            ) as is_stale,
            tell_change(s.table_id, s.trigger_name, exists (
                select from pg_partition_tree(named_table(s.table_id, s.trigger_args)) as p where p.relid = any(v_rewritten)
            ) or s.table_id = any(v_rewritten)) as told
        from pg_event_trigger_ddl_commands() as command
        left join pg_class as c on command.classid = 'pg_class'::regclass and c.oid = command.objid
            or command.classid = 'pg_namespace'::regclass and c.relnamespace = command.objid
        left join pg_trigger as t on command.classid = 'pg_trigger'::regclass and t.oid = command.objid
        cross join lateral (
            select coalesce(t.tgrelid, c.oid) as table_id
            union
            select p.relid from pg_partition_tree(c.oid) as p
        ) as own
        cross join lateral (
            select s.table_id, s.trigger_name, s.trigger_args, s.generated, s.is_inherited
            from pgq.capture_status as s
            where s.table_id = own.table_id
            offset 0
        ) as s
        where t.oid is null or (t.tgtype & 1) = 1
        offset 0
    ) as found;
    if v_stale is not null and pg_try_advisory_xact_lock(hashtextextended('pgq.maint_capture', 0)) then
        perform try_follow_ancestors(v_stale);
        perform make_captures(v_stale);
        perform replace_generated_event();
    end if;
exception
    when others then
        raise warning 'code for captured tables was not made, maintenance will try again: %', sqlerrm;
end;
$$;
revoke execute on function pgq._table_changed() from public;

-- Notes which tables a command writes anew: pg_event_trigger_table_rewrite_reason has 2 for defaults, 4 for types.
create or replace function pgq._table_rewritten()
returns event_trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_event_trigger_table_rewrite_reason() & 4 <> 0 then
        perform set_config('rowbus.rewritten', concat_ws(
            ',', nullif(current_setting('rowbus.rewritten', true), ''), pg_event_trigger_table_rewrite_oid()
        ), true);
    end if;
end;
$$;
revoke execute on function pgq._table_rewritten() from public;

-- Tells the logs that captured tables were dropped.
create or replace function pgq._table_dropped()
returns event_trigger
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    perform tell_drop(d.objid) from pg_event_trigger_dropped_objects() as d where d.object_type = 'table';
exception
    when others then
        raise warning 'logs were not told that a table was dropped, maintenance will try again: %', sqlerrm;
end;
$$;
revoke execute on function pgq._table_dropped() from public;

-- Not every owner may create event triggers: superusers and, on some managed servers, others. Without them there are rows'
-- triggers and the maintenance.
do $$
begin
    drop event trigger if exists pgq_table_changed;
    drop event trigger if exists pgq_table_rewritten;
    drop event trigger if exists pgq_table_dropped;
    create event trigger pgq_table_changed on ddl_command_end
    when tag in ('CREATE TRIGGER', 'CREATE TABLE', 'ALTER TABLE', 'ALTER SCHEMA')
    execute function pgq._table_changed();
    create event trigger pgq_table_rewritten on table_rewrite execute function pgq._table_rewritten();
    create event trigger pgq_table_dropped on sql_drop
    when tag in ('DROP TABLE', 'DROP SCHEMA', 'DROP OWNED', 'DROP EXTENSION')
    execute function pgq._table_dropped();
exception
    when insufficient_privilege then
        null;
end;
$$;
