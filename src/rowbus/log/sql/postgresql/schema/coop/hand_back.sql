-- Hand the batch of a subconsumer back, for the next subconsumer that asks; remove the one that had it.
-- The batch waits in a subscription of its own, so that rotation keeps its events.
-- Locks the rows it changes until the transaction ends (the caller has locked the main consumer's). Returns nothing.
create or replace function pgq_coop._hand_back(i_consumer_name text, i_member pgq.subscription)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    place_id int4 := pgq_coop._consumer_id(format('.%s.returned.%s', i_consumer_name, i_member.sub_batch));
begin
    insert into pgq.subscription (sub_id, sub_queue, sub_consumer, sub_last_tick)
    values (i_member.sub_id, i_member.sub_queue, place_id, null);
    perform pgq_coop._give_batch(i_member, place_id);
end;
$$;
