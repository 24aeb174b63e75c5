-- Hold running work for longer, also while a transaction of its handler is open. A row that somebody else locks stays
-- as it is.
-- Locks the other rows and waits for none; returns a row for each that is still held under its epoch: id, and who has
-- cancelled it and why.
with held as (
    select
        given.id,
        given.epoch
    from unnest(:'ids'::uuid[], :'epochs'::int[]) as given (id, epoch)
),

free as (
    select known.id
    from :"schema".:"running" as known
    inner join held on known.id = held.id and known.epoch = held.epoch
    for no key update of known skip locked
),

renewed as (
    update :"schema".:"running" as longer
    set lease = clock_timestamp() + :'lease'::interval
    from free
    where longer.id = free.id
)

select
    known.id,
    known.cancelled_by,
    known.cancelled_why
from :"schema".:"running" as known
inner join held on known.id = held.id and known.epoch = held.epoch
