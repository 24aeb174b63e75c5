-- Unregister a subconsumer, and remove its name where no other queue uses that. With `i_batch_handling` 1 a batch that
-- it has is handed back: the next subconsumer that asks gets it, under a fresh id.
-- Locks the main consumer's and the subconsumer's rows until the transaction ends.
-- Returns 1, or 0 if it is not registered; with another `i_batch_handling` an active batch is an error.
create or replace function pgq_coop.unregister_subconsumer(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text, i_batch_handling int4
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    main pgq.subscription := pgq_coop._lock_consumer(i_queue_name, i_consumer_name);
    member pgq.subscription := pgq_coop._find_member(main, i_consumer_name || '.' || i_subconsumer_name);
begin
    -- Again, under a lock: it may be finishing its batch.
    select s.* into member
    from pgq.subscription as s
    where s.sub_queue = member.sub_queue and s.sub_consumer = member.sub_consumer
    for update;
    if not found then
        return 0;
    end if;
    if member.sub_batch is null then
        perform pgq_coop._remove_member(member);
    elsif i_batch_handling = 1 then
        perform pgq_coop._hand_back(i_consumer_name, member);
    else
        raise exception 'subconsumer has active batch';
    end if;
    return 1;
end;
$$;
