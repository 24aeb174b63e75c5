-- Take up to `batch_size` of the oldest messages that are not in flight, in one transaction of the caller's; none at the
-- positions `passed_over`. Locks what it deletes and passes over locked rows, so it never waits. A row in hand is known by
-- its xmax (see count_available.sql), and its lock not tried; a look from the start tries all. Messages above `most_bytes`
-- count, but stay, as by receive.sql. Rows are found by their place, and by the id: partitions have equal places.
-- Returns id, time_left, headers, body, seq of each, in no particular order (the caller sorts by seq).
with chosen as materialized (
    select
        waiting.ctid as place,
        waiting.id
    from :"schema".:"queue" as waiting
    where
        waiting.seq >= :'lower_bound'::integer
        and waiting.seq <> all(:'passed_over'::integer[])
        and (
            waiting.xmax = '0'::xid
            or :'lower_bound'::integer = -2147483648
            or (
                age(waiting.xmax) > (select age(pg_snapshot_xmax(pg_current_snapshot())::xid))
                and waiting.xmax not in (select t::xid from pg_snapshot_xip(pg_current_snapshot()) as t)
            )
        )
    order by waiting.seq
    limit :'batch_size'::integer
    for update skip locked
)

delete from :"schema".:"queue" as taken
where
    taken.ctid = any(array(select chosen.place from chosen))
    and taken.id = any(array(select chosen.id from chosen))
    and octet_length(taken.headers)::bigint + coalesce(octet_length(taken.body), 0) <= :'most_bytes'::bigint
returning
    taken.id::text as id,
    date_part('epoch', taken.expires) - date_part('epoch', now()) as time_left,
    taken.headers,
    taken.body,
    taken.seq
