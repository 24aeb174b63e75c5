-- Note that a part of a batch is done up to an event, unless another process has changed the mark since `previous` was
-- read.
-- Locks the batch's subscription and the note until the transaction ends. Returns 1, or 0 when another process has the
-- batch.
select
    pgq.mark_batch(
        :'batch'::bigint, :'parts'::int4, :'part'::int4, :'event'::bigint, :'previous'::bigint
    ) as marked
