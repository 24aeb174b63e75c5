-- Find the tables of delayed message stores in this catalog, ours and others', by their columns; of any schema, or of
-- one.
-- Locks nothing; returns schema and name of each, in order.
declare @schema_name nvarchar(128) = N'$(schema_name)';

select
    places.name as schema_name,
    found.name as table_name
from sys.tables as found
inner join sys.schemas as places on found.schema_id = places.schema_id
inner join sys.columns as columns on found.object_id = columns.object_id
where @schema_name = N'' or places.name = @schema_name
group by places.name, found.name
having
    count(*) = 6
    and count(
        case
            when
                lower(columns.name) in (N'id', N'destination', N'state', N'time', N'headers', N'retrycount')
                then 1
        end
    ) = 6
order by places.name, found.name;
