-- The statement triggers of a partitioned table's partitions: PostgreSQL copies a table's row triggers to its partitions,
-- and no others. A partition has the trigger that writes its TRUNCATE or, where events name the root (as-root), the one
-- that writes it as deletes, as the root's other rows stay.

-- Drops triggers of a capture from a table and from its partitions, by name. Locks those tables.
create or replace function pgq.drop_statement_triggers(
    i_table regclass, i_of_table text[], i_of_partitions text[]
)
returns void
language plpgsql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_trigger record;
begin
    for v_trigger in
        select t.tgname, t.tgrelid::regclass as table_id
        from pg_trigger as t
        where
            (t.tgtype & 33) = 32 and t.tgfoid in ('jsontriga()'::regprocedure, 'logutriga()'::regprocedure, 'sqltriga()'::regprocedure)
            and (
                t.tgrelid = i_table and t.tgname = any(i_of_table)
                or t.tgname = any(i_of_partitions) and t.tgrelid in (
                    select p.relid from pg_partition_tree(i_table) as p where p.relid <> i_table
                )
            )
    loop
        execute format('drop trigger %I on %s', v_trigger.tgname, v_trigger.table_id);
    end loop;
end
$$;

-- Gives partitions the statement triggers that they lack: those of one captured table, or of all. Returns how many.
-- Locks each partition as create trigger does, and fails where another holds it.
create or replace function pgq.follow_partitions(i_table regclass default null)
returns int4
language plpgsql volatile
set search_path = pg_catalog, pgq, pg_temp
set lock_timeout = '200ms' as $$
declare
    v_trigger record;
    v_made int4 := 0;
begin
    for v_trigger in
        select
            t.tgname, t.tgenabled, p.relid as table_id, f.proname, (t.tgtype & 2) <> 0 as is_before,
            array(select a.value from unnest(trigger_arguments(t.tgargs)) with ordinality as a (value, place) order by a.place) as args
        from pg_trigger as t
        join pg_class as c on t.tgrelid = c.oid and c.relkind = 'p'
        join pg_proc as f on t.tgfoid = f.oid
        cross join lateral pg_partition_tree(t.tgrelid) as p
        join pg_class as child on p.relid = child.oid and child.relkind = 'r'
        where
            (t.tgtype & 33) = 32 and t.tgrelid = coalesce(i_table, t.tgrelid)
            and t.tgfoid in ('jsontriga()'::regprocedure, 'logutriga()'::regprocedure, 'sqltriga()'::regprocedure)
            and 'as-root' = any(trigger_arguments(t.tgargs)) = ((t.tgtype & 2) <> 0)
            and not exists (
                select from pg_trigger as o
                where o.tgrelid = p.relid and o.tgname = t.tgname and o.tgfoid = t.tgfoid and o.tgargs = t.tgargs
                    and o.tgenabled = case t.tgenabled when 'A' then 'A' else 'O' end -- as it would be made
            )
    loop
        perform make_trigger(
            v_trigger.table_id, v_trigger.tgname, case when v_trigger.is_before then 'before truncate' else 'after truncate' end,
            'statement', v_trigger.proname, v_trigger.args, v_trigger.tgenabled = 'A'
        );
        v_made := v_made + 1;
    end loop;
    return v_made;
end
$$;

-- Does so for what some tables are partitions of, or for all (null), or says why it could not: it needs the right to make
-- triggers on the partitions.
create or replace function pgq.try_follow_ancestors(i_tables oid[])
returns void
language plpgsql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
begin
    if i_tables is null then
        perform follow_partitions();
    end if;
    perform follow_partitions(a.relid)
    from (
        select distinct p.relid
        from unnest(i_tables) as t (relid)
        cross join lateral pg_partition_ancestors(t.relid) as p (relid)
    ) as a;
exception
    when others then
        raise warning 'partitions of captured tables have no trigger for TRUNCATE yet: %', sqlerrm;
end
$$;

-- Does so for all.
create or replace function pgq.try_follow_partitions()
returns void
language sql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
    select pgq.try_follow_ancestors(null);
$$;

-- Makes the event of a TRUNCATE where events name the root, before or after it. Before the root's it only notes that the
-- root is at it, so that its partitions write nothing; a partition's own is written here, as a DELETE of each row.
create or replace function pgq.root_truncated(i_format text, i_when text, i_relation regclass, i_args text[])
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_root oid := pg_partition_root(i_relation);
    v_is_root boolean := i_relation = v_root;
begin
    if v_is_root then
        perform set_config('rowbus.truncated', case i_when when 'BEFORE' then v_root::text else '' end, true);
    elsif current_setting('rowbus.truncated', true) is distinct from v_root::text then
        execute format(
            'select pgq.insert_event($1, e.event[1], e.event[2], e.event[3], e.event[4], e.event[5], e.event[6]) '
            'from only %s as t cross join lateral pgq.row_event($2, ''DELETE'', ''AFTER'', t, t, $3, $4) as e (event) '
            'where e.event is not null', i_relation
        ) using i_args[0], i_format, i_args, event_table(i_relation, i_args);
    end if;
    return v_is_root and i_when = 'AFTER';
end
$$;
