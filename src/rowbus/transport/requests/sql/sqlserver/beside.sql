-- Find the tables of one schema, in this catalog, whose names may be those of queues of answers.
-- Locks nothing; returns the name of each, in order.
declare @schema_name nvarchar(128) = N'$(schema_name)';

select found.name as table_name
from sys.tables as found
inner join sys.schemas as places on found.schema_id = places.schema_id
where
    places.name = @schema_name
    and charindex(N'.answers-', found.name) > 0
order by found.name;
