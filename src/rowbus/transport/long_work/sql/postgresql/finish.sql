-- Delete rows of running work that is done, each if it is still held under its epoch.
-- Locks the rows, passing over those that are locked: nobody's end waits for that of another; returns the ids of those
-- that are deleted.
with given as (
    select
        pairs.id,
        pairs.epoch
    from unnest(:'ids'::uuid[], :'epochs'::int[]) as pairs (id, epoch)
),

held as (
    select known.id
    from :"schema".:"running" as known
    inner join given on known.id = given.id and known.epoch = given.epoch
    for update of known skip locked
)

delete from :"schema".:"running" as done
using held
where done.id = held.id
returning done.id
