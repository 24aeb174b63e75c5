-- Finish the batch of a subconsumer.
-- Locks the subconsumer's row until the transaction ends. Returns 1, or 0 when the subconsumer no longer holds the
-- batch.
select pgq_coop.finish_batch(:'batch'::bigint) as finished
