-- Delete up to `batch_size` parts of values whose time is over, the oldest first.
-- Locks the rows it deletes and passes over those that others delete, so it never waits; the row count is the answer.
delete from :"schema".:"claimed" as old
where old.ctid = any(array(
    select kept.ctid
    from :"schema".:"claimed" as kept
    where kept.keep_until < now()
    order by kept.keep_until
    limit :'batch_size'::integer
    for update skip locked
))
