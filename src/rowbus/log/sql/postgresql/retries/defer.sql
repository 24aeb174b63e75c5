-- Have events of a batch delivered again later without counting a retry, in this order and after the events of
-- retry.sql that are due in the same second.
-- Inserts into the retry queue of the batch's consumer; what is there already stays. Returns how many were put there.
select
    pgq.events_defer(
        :'batch'::bigint, :'events'::bigint[], :'txids'::bigint[], :'seconds'::int4[]
    ) as deferred
