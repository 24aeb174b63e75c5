-- Find the tables of delayed messages in this catalog by their columns, NServiceBus's and ours; of any schema, or of one.
-- Locks nothing; returns schema and name of each, in order.
declare @schema_name nvarchar(128) = N'$(schema_name)';

select
    places.name as schema_name,
    found.name as table_name
from sys.tables as found
inner join sys.schemas as places on found.schema_id = places.schema_id
inner join sys.columns as columns on found.object_id = columns.object_id
where
    (@schema_name = N'' or places.name = @schema_name)
    and lower(columns.name) <> N'bodystring'
group by places.name, found.name
having
    count(*) = 4
    and count(case when lower(columns.name) in (N'headers', N'body', N'due', N'rowversion') then 1 end) = 4
order by places.name, found.name;
