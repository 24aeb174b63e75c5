-- Take certain messages, which were received and put back a moment ago, found by their id and position; those that are gone
-- or in flight are left out.
-- Locks the rows it deletes and passes over locked ones, so it never waits.
-- Returns id, time_left, headers, body, seq of each, in no particular order (the caller sorts by seq).
delete from :"queue_schema".:"queue" as taken
where taken.id = any(array(
    select waiting.id
    from :"queue_schema".:"queue" as waiting
    where
        waiting.seq = any(:'positions'::integer[])
        and waiting.id = any(:'ids'::uuid[])
    for update skip locked
))
returning
    taken.id::text as id,
    date_part('epoch', taken.expires) - date_part('epoch', now()) as time_left,
    taken.headers,
    taken.body,
    taken.seq
