-- Say what the tables named, in brackets and one a line, occupy: a heap keeps pages that its rows have left
-- (docs/wire-format.md#receive). Locks nothing; returns a row a table: schema, name, rows (an estimate), bytes of its
-- pages. Nothing where the server has no such statistics (Babelfish).
declare @names nvarchar(max) = N'$(names)';

if object_id(N'sys.allocation_units', N'V') is not null
begin
    select
        places.name as schema_name,
        queues.name as table_name,
        max(parts.rows) as live_rows,
        sum(units.total_pages) * 8192 as bytes
    from sys.tables as queues
    inner join sys.schemas as places on queues.schema_id = places.schema_id
    inner join sys.partitions as parts on queues.object_id = parts.object_id
    inner join sys.allocation_units as units on parts.partition_id = units.container_id
    where
        queues.object_id in (select object_id(value, N'U') from string_split(@names, nchar(10)))
        and parts.index_id in (0, 1)
    group by places.name, queues.name
    order by places.name, queues.name;
end;
