-- Find the tables of subscriptions in this catalog by their columns, NServiceBus's and ours, in any schema.
-- Locks nothing; returns schema and name of each, in order.
select
    places.name as schema_name,
    found.name as table_name
from sys.tables as found
inner join sys.schemas as places on found.schema_id = places.schema_id
inner join sys.columns as columns on found.object_id = columns.object_id
group by places.name, found.name
having
    count(*) = 3
    and count(case when lower(columns.name) in (N'endpoint', N'queueaddress', N'topic') then 1 end) = 3
order by places.name, found.name;
