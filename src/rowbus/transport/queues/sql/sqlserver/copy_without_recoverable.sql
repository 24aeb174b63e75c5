-- Put many messages in a queue whose table has no column Recoverable; otherwise as copy.sql, word for word.
-- Locks only the rows it inserts, so it never waits. Returns nothing.
insert into [$(catalog)].[$(schema)].[$(queue)] (Id, Expires, Headers, Body)
select
    newid() as Id,
    cast(nullif(given.expires, N'') as datetime2) as Expires,
    given.headers,
    given.body
from (
    values
    (N'$(place)', N'$(expires)', N'$(headers)', convert(varbinary(max), N'$(body)'))
) as given (place, expires, headers, body)
order by cast(given.place as int);
