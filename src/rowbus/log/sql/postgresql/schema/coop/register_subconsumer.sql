-- Register a subconsumer, and its main consumer where that is not registered yet. Several may do so at the same time.
-- Locks the main consumer's row, and the name of the subconsumer, until the transaction ends.
-- Returns 1, or 0 if it was registered already; a name that is subscribed on its own is an error.
create or replace function pgq_coop.register_subconsumer(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    main pgq.subscription := pgq_coop._lock_consumer(i_queue_name, i_consumer_name);
    name text := i_consumer_name || '.' || i_subconsumer_name;
    member_id int4;
begin
    if main.sub_id is null then
        perform pgq_coop._consumer_id(i_consumer_name);
        perform pgq.register_consumer(i_queue_name, i_consumer_name);
        main := pgq_coop._lock_consumer(i_queue_name, i_consumer_name);
    end if;
    member_id := pgq_coop._consumer_id(name);
    insert into pgq.subscription (sub_id, sub_queue, sub_consumer, sub_last_tick)
    values (main.sub_id, main.sub_queue, member_id, null)
    on conflict (sub_queue, sub_consumer) do nothing;
    if found then
        return 1;
    end if;
    if (pgq_coop._find_member(main, name)).sub_id is null then
        raise exception 'consumer % is not a subconsumer: it is subscribed to queue % on its own', name, i_queue_name;
    end if;
    return 0;
end;
$$;
