-- Take these rows out of the queue, to put them elsewhere in the same transaction.
-- Locks the rows it deletes and passes over those in somebody's hands, so it never waits.
-- Returns id, headers, body, seq of each, in no particular order (the caller sorts by seq).
delete from :"schema".:"queue" as taken
where taken.id = any(array(
    select message.id
    from :"schema".:"queue" as message
    where message.id = any(:'row_ids'::uuid[])
    for update skip locked
))
returning
    taken.id::text as id,
    taken.headers,
    taken.body,
    taken.seq
