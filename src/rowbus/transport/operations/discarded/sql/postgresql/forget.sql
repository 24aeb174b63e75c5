-- Delete what was discarded longer ago than a number of days.
-- Locks the rows it deletes and passes over those that others have locked; the row count is the answer.
delete from :"schema".:"discarded" as old
where old.ctid = any(array(
    select kept.ctid
    from :"schema".:"discarded" as kept
    where kept.discarded < now() - make_interval(days => :'days'::integer)
    for update skip locked
))
