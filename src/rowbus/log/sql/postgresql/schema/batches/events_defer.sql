-- Have several events of an open batch delivered again without counting a retry: each after its own number of seconds,
-- in the order of the arrays, and behind those of events_retry() that are due in the same second. The events' transactions
-- (ev_txid) are given too, so that the index finds them in a batch of any size.
-- Locks their places in the retry queue; returns how many were put there. Raises `batch not found`, `event not found`.
create or replace function pgq.events_defer(
    i_batch_id bigint, i_event_ids bigint[], i_txids bigint[], i_retry_seconds int4[]
)
returns integer
language sql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
    select pgq._put_back(
        i_batch_id,
        i_event_ids,
        array(
            select now() + make_interval(secs => wanted.seconds + 0.000001 * wanted.place)
            from unnest(i_retry_seconds) with ordinality as wanted (seconds, place)
            order by wanted.place
        ),
        false,
        i_txids
    );
$$;
