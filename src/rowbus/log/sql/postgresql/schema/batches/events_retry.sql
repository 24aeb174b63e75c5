-- Have several events of an open batch delivered again, each after its own number of seconds, reading the batch once.
-- Locks their places in the retry queue; returns how many were put there. Raises `batch not found`, `event not found`.
create or replace function pgq.events_retry(i_batch_id bigint, i_event_ids bigint[], i_retry_seconds int4[])
returns integer
language sql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
    select pgq._put_back(
        i_batch_id,
        i_event_ids,
        array(
            select now() + wanted.seconds * interval '1 second'
            from unnest(i_retry_seconds) with ordinality as wanted (seconds, place)
            order by wanted.place
        ),
        true
    );
$$;
