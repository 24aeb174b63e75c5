-- Finish the batch of a member of a cooperative consumer.
-- Locks the member's row until the transaction ends. Returns 1, or 0 when the batch is nobody's any more.
select pgq_coop.finish_batch(:'batch'::bigint) as finished
