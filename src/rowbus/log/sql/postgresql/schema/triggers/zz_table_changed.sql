-- Make generated code as soon as a trigger of ours is created or a table with one is altered, instead of at the next
-- maintenance. Looks at the command's own table and its partitions alone (`offset 0` keeps the planner to that). Does
-- nothing while a maintenance is at it, and never fails the command it follows.
-- Locks other runs of maint_capture out until the transaction ends, if it makes code.
create or replace function pgq._table_changed()
returns event_trigger
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    if exists (
        select
        from pg_event_trigger_ddl_commands() as command
        left join pg_class as c on command.classid = 'pg_class'::regclass and c.oid = command.objid
        left join pg_trigger as t on command.classid = 'pg_trigger'::regclass and t.oid = command.objid
        cross join lateral (
            select coalesce(t.tgrelid, command.objid) as table_id
            union
            select p.relid from pg_partition_tree(c.oid) as p
        ) as own
        cross join lateral (
            select s.table_id, s.generated, s.is_inherited
            from pgq.capture_status as s
            where s.table_id = own.table_id
            offset 0
        ) as s
        where (t.oid is null or (t.tgtype & 1) = 1)
        and (
            s.table_id = coalesce(t.tgrelid, command.objid)
            and s.generated = any(case when t.oid is null and not c.relispartition then '{stale}' else '{no,stale}' end::text[])
            or s.is_inherited and s.generated <> 'yes'
        )
    ) and pg_try_advisory_xact_lock(hashtextextended('pgq.maint_capture', 0))
    then
        perform pgq.maint_capture();
    end if;
exception
    when others then
        raise warning 'code for captured tables was not made, maintenance will try again: %', sqlerrm;
end;
$$;
revoke execute on function pgq._table_changed() from public;

-- Only superusers may create event triggers; without it there is the maintenance.
do $$
begin
    if (select r.rolsuper from pg_roles as r where r.rolname = current_user) then
        drop event trigger if exists pgq_table_changed;
        create event trigger pgq_table_changed on ddl_command_end
        when tag in ('CREATE TRIGGER', 'CREATE TABLE', 'ALTER TABLE')
        execute function pgq._table_changed();
    end if;
end;
$$;
