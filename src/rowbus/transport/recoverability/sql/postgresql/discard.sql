-- Delete these rows of the queue for good.
-- Locks the rows it deletes and passes over those in flight, so it never waits; the row count is the answer.
delete from :"schema".:"queue" as discarded
where discarded.id = any(array(
    select message.id
    from :"schema".:"queue" as message
    where message.id = any(:'row_ids'::uuid[])
    for update skip locked
))
