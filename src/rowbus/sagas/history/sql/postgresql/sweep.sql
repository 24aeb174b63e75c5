-- Delete what two sagas at most did that completed longer ago than they are kept. Each completion calls it, so that more go
-- than come.
-- Locks the rows it deletes; passes over sagas that another sweeps, so it never waits. Returns nothing.
with old as (
    select line.saga_id
    from :"schema".:"history" as line
    where line.is_completed and line.at < now() - make_interval(secs => :'keep_seconds'::integer)
    order by line.at
    limit 2
    for update skip locked
)

delete from :"schema".:"history" as line
using old
where line.saga_id = old.saga_id
