-- Count the delayed messages of a table, up to `most`, and those of them that are overdue; say when the first is due.
-- Locks nothing; returns one row: waiting, overdue, next due, and the database's time.
select
    (select count(*)::integer from (select from :"schema".:"delayed" limit :'most'::integer) as counted) as waiting,
    (
        select count(*)::integer
        from (select from :"schema".:"delayed" as late where late.due <= now() limit :'most'::integer) as counted
    ) as overdue,
    (select min(first.due) from :"schema".:"delayed" as first) as next_due,
    clock_timestamp() as at
