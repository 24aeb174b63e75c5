-- Note that a part of a batch has begun with its events up to `tried`, which were lost so often before, unless another
-- process has changed the mark since `previous` was read.
-- Locks the batch's subscription and the note until the transaction ends. Returns 1, or 0 when another process has the
-- batch.
select
    pgq.note_attempt(
        :'batch'::bigint,
        :'parts'::int4,
        :'part'::int4,
        :'previous'::bigint,
        :'tried'::bigint,
        :'losses'::int4
    ) as noted
