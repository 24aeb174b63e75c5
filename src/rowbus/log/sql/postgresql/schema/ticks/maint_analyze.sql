-- Gather the planner's statistics of a queue's previous table, which nothing else does: autovacuum is off for the
-- tables of events. Runs with its owner's rights, as only a table's owner may analyse it.
-- Blocks no reader and no writer. Returns the table's name; fails when another role owns it.
create or replace function pgq.maint_analyze(i_queue_name text)
returns text
language plpgsql security definer set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_table text;
    v_owner regrole;
begin
    select format('%s_%s', q.queue_data_pfx, (q.queue_cur_table + q.queue_ntables - 1) % q.queue_ntables)
    into strict v_table
    from pgq.queue as q
    where q.queue_name = i_queue_name;
    execute format('analyze %s', pgq._event_table(v_table));
    select c.relowner::regrole into v_owner from pg_class as c
    where c.oid = to_regclass(v_table) and c.reltuples < 0;
    if found then -- the server only warned
        raise exception 'the tables of queue % can only be analysed by their owner, %', i_queue_name, v_owner
        using errcode = 'insufficient_privilege', hint = 'Let the owner of schema pgq''s functions own them too.';
    end if;
    return v_table;
end
$$;
