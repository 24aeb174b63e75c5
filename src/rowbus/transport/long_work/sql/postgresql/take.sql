-- Take running work that no process holds, the oldest first: new, handed back, or of a process whose lease is over. While
-- the server was away nobody could renew a lease: none is over before the server has run for as long as one.
-- Locks the rows, passing over those that another process locks; returns a row each: id, queue, headers, body,
-- failures, epoch, whether a lease was over, since when the server runs, and seq.
with free as (
    select
        waiting.id,
        waiting.lease is not null as is_lost
    from :"schema".:"running" as waiting
    where
        waiting.lease is null
        or (
            waiting.lease < clock_timestamp()
            and pg_catalog.pg_postmaster_start_time() < clock_timestamp() - :'lease'::interval
        )
    order by waiting.seq
    limit :'count'::int
    for update skip locked
)

update :"schema".:"running" as taken
set
    lease = clock_timestamp() + :'lease'::interval,
    epoch = taken.epoch + 1,
    process = :'process'::text,
    since = clock_timestamp()
from free
where taken.id = free.id
returning
    taken.id,
    taken.queue,
    taken.headers,
    taken.body,
    taken.failures,
    taken.epoch,
    free.is_lost,
    pg_catalog.pg_postmaster_start_time() as server,
    taken.seq
