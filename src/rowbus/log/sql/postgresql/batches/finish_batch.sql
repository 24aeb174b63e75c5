-- Finish a consumer's batch: its last tick moves to the batch's end, and its marks go.
-- Locks the subscription's row until the transaction ends. Returns 1, or 0 when the batch was not the consumer's any
-- more, or has other marks than those that are given: another process has done a part of it.
select
    case
        when
            pgq.hold_marks(
                :'batch'::bigint, :'parts'::int4[], :'part'::int4[], :'events'::bigint[]
            )
            then pgq.finish_batch(:'log'::text, :'consumer'::text, :'batch'::bigint)
        else 0
    end as finished
