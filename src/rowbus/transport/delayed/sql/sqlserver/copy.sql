-- Store many delayed messages: `Batches.copy` repeats the row of values, and counts the rows in `place`, by which the
-- messages are in order. Locks only the rows it inserts, so it never waits. Returns nothing. `due` comes from due.sql, so
-- that the database's clock is the only one; the margin lets the rounding of its text to milliseconds make nothing due
-- early.
insert into [$(catalog)].[$(schema)].[$(delayed)] (Headers, Body, Due)
select
    given.headers,
    given.body,
    dateadd(ms, 2, cast(given.due as datetime2)) as Due
from (
    values
    (N'$(place)', N'$(due)', N'$(headers)', convert(varbinary(max), N'$(body)'))
) as given (place, due, headers, body)
order by cast(given.place as int);
