-- Make a consumer known, and say up to which claim it has acknowledged; again and again the same answer.
-- Locks the consumer's row; returns one row with one number.
insert into rowbus_spark.claim_consumer as known (queue, consumer, acked)
values (:'queue'::text, :'consumer'::text, :'acked'::bigint)
on conflict (queue, consumer) do update
set acked = known.acked
returning known.acked
