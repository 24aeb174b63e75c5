-- Put many messages in the queue: `Batches.copy` repeats the row of values, and counts the rows in `place`, by which the
-- messages are in order. Locks only the rows it inserts, so it never waits. Returns nothing. `expires` comes from
-- expiry.sql, so that the database's clock is the only one.
insert into [$(catalog)].[$(schema)].[$(queue)] (Id, Recoverable, Expires, Headers, Body)
select
    newid() as Id,
    1 as Recoverable,
    cast(nullif(given.expires, N'') as datetime2) as Expires,
    given.headers,
    given.body
from (
    values
    (N'$(place)', N'$(expires)', N'$(headers)', convert(varbinary(max), N'$(body)'))
) as given (place, expires, headers, body)
order by cast(given.place as int);
