-- Turn the root into a branch, in three steps, each in a transaction of its own: 1 stops inserts, 2 waits for the
-- transactions that still insert and makes the last tick, 3 changes the type. Only then may a branch be promoted.
-- Step 2 locks the queue's tables against writing, steps 1 and 3 lock the rows they change.
-- Returns 200 and, from step 2 on, the last tick; 301 if this is no root, 404 if it is no node.
create or replace function pgq_node.demote_root(
    in i_queue_name text,
    in i_step int4,
    in i_new_provider text,
    out ret_code int4,
    out ret_note text,
    out last_tick int8
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    type_now text := (select n.node_type from pgq_node.node_info as n where n.queue_name = i_queue_name for update);
    stopped boolean := (
        select q.queue_disable_insert and q.queue_external_ticker
        from pgq.queue as q
        where q.queue_name = i_queue_name
    );
begin
    if type_now is null then
        ret_code := 404;
        ret_note := 'Node not initialized for queue: ' || i_queue_name;
    elsif type_now <> 'root' then
        ret_code := 301;
        ret_note := 'Node not root';
    elsif i_step > 1 and stopped is not true then
        raise exception 'steps in wrong order';
    elsif i_step = 1 and stopped is null then
        ret_code := 404;
        ret_note := 'Huh, no queue?: ' || i_queue_name;
    elsif i_step = 1 then
        update pgq.queue as q
        set queue_disable_insert = true, queue_external_ticker = true
        where q.queue_name = i_queue_name;
        ret_code := 200;
        ret_note := 'Step 1: Writing disabled for: ' || i_queue_name;
    elsif i_step = 2 then
        last_tick := pgq_node._make_last_tick(i_queue_name);
        ret_code := 200;
        ret_note := 'Step 2: Inserted last tick: ' || i_queue_name;
    elsif i_step = 3 then
        last_tick := pgq_node._change_type(i_queue_name, 'branch', i_new_provider);
        ret_code := 200;
        ret_note := 'Step 3: Demoted root to branch: ' || i_queue_name;
    else
        raise exception 'incorrect step number';
    end if;
end;
$$;
