-- Forget up to `batch_size` keys that have had all their tokens, and no deferred message, for a minute.
-- Locks the rows it deletes and passes over those that others have locked, so it never waits; the row count is the answer.
delete from :"schema".:"limits" as old
where old.key = any(array(
    select known.key
    from :"schema".:"limits" as known
    where
        greatest(known.arrival, known.next_waited, known.next_fresh)
        < clock_timestamp() - interval '1 minute'
    order by known.key
    limit :'batch_size'::integer
    for update skip locked
))
