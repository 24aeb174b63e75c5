-- Forget up to `batch_size` messages that were accepted longer ago than that, the oldest first.
-- Locks the rows it deletes and passes over those that others delete, so it never waits; the row count is the answer.
delete from :"schema".:"inbox" as old
where old.message_key = any(array(
    select known.message_key
    from :"schema".:"inbox" as known
    where known.accepted < now() - :'older_than'::interval
    order by known.accepted
    limit :'batch_size'::integer
    for update skip locked
))
