-- Delete the points of minutes that are older than so many minutes, and those of hours older than so many hours.
-- Locks the rows it deletes and passes over those that others have locked; the row count is the answer.
delete from :"schema".:"past" as old
where old.ctid = any(array(
    select past.ctid
    from :"schema".:"past" as past
    where
        (past.minutes = 1 and past.at < now() - make_interval(mins => :'minutes'::integer))
        or past.at < now() - make_interval(hours => :'hours'::integer)
    for update skip locked
))
