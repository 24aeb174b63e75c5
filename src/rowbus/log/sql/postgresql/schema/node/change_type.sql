-- What demote_root and promote_branch are made of. _change_type makes a root of a branch or a branch of a root, reading
-- from that provider; it locks the rows it changes and returns the newest tick. _make_last_tick waits for all who write
-- to the queue, and makes a tick behind them; it locks the queue's tables against writing and returns the tick.
create or replace function pgq_node._change_type(i_queue_name text, i_node_type text, i_provider_node text)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    newest_tick bigint := pgq_node._newest_tick(i_queue_name);
begin
    update pgq_node.node_info as n set node_type = i_node_type where n.queue_name = i_queue_name;
    update pgq_node.local_state as s
    set provider_node = i_provider_node, last_tick_id = newest_tick, uptodate = false
    from pgq_node.node_info as n
    where n.queue_name = i_queue_name and s.queue_name = n.queue_name and s.consumer_name = n.worker_name;
    return newest_tick;
end;
$$;

create or replace function pgq_node._make_last_tick(i_queue_name text)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    queue pgq.queue;
begin
    select q.* into queue from pgq.queue as q where q.queue_name = i_queue_name;
    -- An earlier statement than the tick's, whose snapshot then sees all that those waited for have written.
    execute format('lock table %s in exclusive mode', pgq._event_table(queue.queue_data_pfx));
    return pgq.ticker(
        i_queue_name, nextval(pgq._queue_sequence(queue.queue_tick_seq)), now(),
        nextval(pgq._queue_sequence(queue.queue_event_seq))
    );
end;
$$;
