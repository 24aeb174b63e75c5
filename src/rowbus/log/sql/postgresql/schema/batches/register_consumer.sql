-- Subscribe a consumer to a queue, from the newest tick on: it will see what commits after that.
-- Locks the name of the consumer until the transaction ends; returns 1, or 0 if it was subscribed already.
create or replace function pgq.register_consumer(x_queue_name text, x_consumer_id text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    return pgq.register_consumer_at(x_queue_name, x_consumer_id, null);
end;
$$;
