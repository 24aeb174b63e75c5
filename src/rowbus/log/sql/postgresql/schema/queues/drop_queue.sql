-- Drop a queue with all its events; with force, also when consumers are attached, who are unregistered, and when tables
-- are captured into it, which are released: each write to them would fail from then on.
-- Locks the queue's row and tables, and waits for others who create or drop queues, until the end of the transaction.
-- Returns 1.
create or replace function pgq.drop_queue(x_queue_name text, x_force bool)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queue pgq.queue;
begin
    perform pgq._lock_definitions();
    select * into v_queue from pgq.queue where queue_name = x_queue_name for update;
    if not found then
        raise exception 'No such event queue';
    end if;
    if x_force then
        perform pgq.unregister_consumer(queue_name, consumer_name) from pgq.get_consumer_info(x_queue_name);
    elsif exists (select from pgq.subscription where sub_queue = v_queue.queue_id) then
        raise exception 'cannot drop queue, consumers still attached';
    end if;
    if x_force then
        perform pgq.release_table(c.table_id, x_queue_name) from (
            select distinct s.table_id from pgq.capture_status as s where s.queue_name = x_queue_name and not s.is_inherited
        ) as c;
    elsif exists (select from pgq.capture_status as s where s.queue_name = x_queue_name) then
        raise exception using
            message = 'cannot drop queue, tables are captured into it: ' || (
                select string_agg(distinct s.table_name, ', ') from pgq.capture_status as s
                where s.queue_name = x_queue_name and not s.is_inherited
            ),
            hint = 'Release them first, or drop it with force.';
    end if;
    perform pgq._drop_event_tables(v_queue);
    delete from pgq.capture_shape where cs_queue = x_queue_name;
    delete from pgq.tick where tick_queue = v_queue.queue_id;
    delete from pgq.queue where queue_id = v_queue.queue_id;
    perform pgq._generate_dispatch();
    return 1;
end;
$$;

create or replace function pgq.drop_queue(x_queue_name text)
returns integer
language plpgsql
strict
as $$
begin
    return pgq.drop_queue(x_queue_name, false);
end;
$$;
