-- Note that a part of a batch is done up to an event, if nobody else has noted otherwise since we read `previous`.
-- Locks the batch's subscription and the note until the transaction ends. Returns 1, or 0 when another was at work.
select
    pgq.mark_batch(
        :'batch'::bigint, :'parts'::int4, :'part'::int4, :'event'::bigint, :'previous'::bigint
    ) as marked
