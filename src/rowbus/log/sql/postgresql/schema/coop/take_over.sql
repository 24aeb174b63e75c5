-- Take the oldest batch that was handed back for a subconsumer; if there is none, that of one that gave no sign of life
-- for `i_dead_interval` (NULL: all count as alive). Removes others that gave none and have no batch.
-- Skips rows that are locked: their owner is just finishing, or giving a sign of life. Locks what it changes until the
-- transaction ends (the caller has locked the main consumer's). Returns the batch under a fresh id, NULL if there is
-- none.
create or replace function pgq_coop._take_over(
    i_consumer_name text, i_main pgq.subscription, i_member pgq.subscription, i_dead_interval interval
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    place text := format('.%s.returned.', i_consumer_name);
    dead_before timestamptz := now() - i_dead_interval;
    other pgq.subscription;
begin
    select s.*
    into other
    from pgq.subscription as s
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where s.sub_queue = i_main.sub_queue and s.sub_id = i_main.sub_id and s.sub_batch is not null
        and s.sub_consumer <> i_main.sub_consumer and s.sub_consumer <> i_member.sub_consumer
        and (starts_with(c.co_name, place) or s.sub_active < dead_before)
    order by starts_with(c.co_name, place) desc, s.sub_last_tick asc
    limit 1
    for update of s skip locked;
    if found then
        return pgq_coop._give_batch(other, i_member.sub_consumer);
    end if;
    for other in
        select s.*
        from pgq.subscription as s
        where s.sub_queue = i_main.sub_queue and s.sub_id = i_main.sub_id and s.sub_batch is null
            and s.sub_consumer <> i_main.sub_consumer and s.sub_consumer <> i_member.sub_consumer
            and s.sub_active < dead_before
        for update of s skip locked
    loop
        perform pgq_coop._remove_member(other);
    end loop;
    return null;
end;
$$;
