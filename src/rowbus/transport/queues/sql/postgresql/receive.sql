-- Take the oldest message that is not in flight; it is gone when the transaction commits and back when it does not.
-- Locks the row it deletes and passes over locked ones, so it never waits. `lower_bound` only spares the scan dead
-- index entries below it. No `using`: a join may delete more than one row despite the limit. A message above `most_bytes`
-- is left where it is, and nothing is returned: find_oversized.sql finds it. Sizes are known without reading the values.
-- Returns at most one row: id, time_left (seconds; null: for ever), headers, body, seq.
delete from :"schema".:"queue" as taken
where
    taken.id = (
        select waiting.id
        from :"schema".:"queue" as waiting
        where waiting.seq >= :'lower_bound'::integer
        order by waiting.seq
        limit 1
        for update skip locked
    )
    and octet_length(taken.headers)::bigint + coalesce(octet_length(taken.body), 0) <= :'most_bytes'::bigint
returning
    taken.id::text as id,
    date_part('epoch', taken.expires) - date_part('epoch', now()) as time_left,
    taken.headers,
    taken.body,
    taken.seq
