-- Give the batch of one subscription to another, under a fresh id, and remove the first. The old id becomes
-- unknown, so its holder can neither finish the batch nor retry its events. The batch's marks move
-- along. The name of the removed one goes too, where no other queue uses it.
-- Locks both rows until the transaction ends (the caller has locked the main consumer's). Returns the fresh id.
create or replace function pgq_coop._give_batch(i_from pgq.subscription, i_consumer_id int4)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    fresh_id bigint := nextval('pgq.batch_id_seq');
begin
    update pgq.subscription as s
    set sub_last_tick = i_from.sub_last_tick,
        sub_next_tick = i_from.sub_next_tick,
        sub_batch = fresh_id,
        sub_active = clock_timestamp()
    where s.sub_queue = i_from.sub_queue and s.sub_consumer = i_consumer_id;
    if not found then
        raise exception 'subconsumer to receive batch % is gone', i_from.sub_batch;
    end if;
    update pgq.batch_position as p set bp_batch = fresh_id where p.bp_batch = i_from.sub_batch;
    perform pgq_coop._remove_member(i_from);
    return fresh_id;
end;
$$;

create or replace function pgq_coop._remove_member(i_member pgq.subscription)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- What it gave up on stays with the main consumer; it would go with the name.
    update pgq.dead_letter as d
    set dl_consumer = m.sub_consumer
    from pgq.subscription as m, pgq.consumer as main, pgq.consumer as own
    where d.dl_queue = i_member.sub_queue and d.dl_consumer = i_member.sub_consumer
        and m.sub_queue = i_member.sub_queue and m.sub_id = i_member.sub_id
        and main.co_id = m.sub_consumer and own.co_id = i_member.sub_consumer
        and starts_with(own.co_name, main.co_name || '.');
    delete from pgq.subscription as s
    where s.sub_queue = i_member.sub_queue and s.sub_consumer = i_member.sub_consumer;
    -- Locked by another session: it is being subscribed to another queue, so it must stay.
    perform from pgq.consumer as c where c.co_id = i_member.sub_consumer for update skip locked;
    if found then
        delete from pgq.consumer as c
        where c.co_id = i_member.sub_consumer
            and not exists (select from pgq.subscription as s where s.sub_consumer = i_member.sub_consumer);
    end if;
end;
$$;
