-- Keep the generated functions right when a queue's row changes: rotation changes its current table, an administrator
-- its name or limit.
-- Locks catalogue rows of functions, which only other changes of the same queue would write; returns nothing.
create or replace function pgq._queue_changed()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    if new.queue_per_tx_limit >= 0 then
        perform pgq._limit_sequence(new.queue_id);
    end if;
    if old.queue_cur_table <> new.queue_cur_table then
        perform pgq._generate_insert(new.queue_id);
    end if;
    if old.queue_data_pfx <> new.queue_data_pfx or old.queue_event_seq <> new.queue_event_seq then
        perform pgq._generate_insert(new.queue_id), pgq._generate_dispatch();
    elsif old.queue_name <> new.queue_name then
        perform pgq._generate_dispatch();
    end if;
    return null;
end;
$$;
revoke execute on function pgq._queue_changed() from public;

create or replace trigger rowbus_queue_changed
after update of queue_cur_table, queue_data_pfx, queue_event_seq, queue_name, queue_per_tx_limit
on pgq.queue
for each row execute function pgq._queue_changed();
