-- Have events of a batch delivered again to its consumer, each after so many seconds, their retries counted.
-- Inserts into the retry queue; what is there already stays. Returns how many were put there.
select pgq.events_retry(:'batch'::bigint, :'events'::bigint[], :'seconds'::int4[]) as retried
