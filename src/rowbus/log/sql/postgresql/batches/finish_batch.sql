-- Finish a consumer's batch: its last tick moves to the batch's end, and its marks go.
-- Locks the subscription's row until the transaction ends. Returns 1, or 0 when the batch was not the consumer's.
select pgq.finish_batch(:'log'::text, :'consumer'::text, :'batch'::bigint) as finished
