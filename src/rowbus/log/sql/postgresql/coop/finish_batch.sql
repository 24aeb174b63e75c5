-- Finish the batch of a subconsumer.
-- Locks the subconsumer's row until the transaction ends. Returns 1, or 0 when the subconsumer no longer holds the
-- batch, or the batch has other marks than those that are given.
select
    case
        when
            pgq.hold_marks(
                :'batch'::bigint, :'parts'::int4[], :'part'::int4[], :'events'::bigint[]
            )
            then pgq_coop.finish_batch(:'batch'::bigint)
        else 0
    end as finished
