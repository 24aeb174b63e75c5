-- Find the tables of this catalog that are queues, or were before they were changed (six of the eight columns by name,
-- Headers among them), and those named, in brackets and one a line.
-- Locks nothing. Returns a row a column of these tables, in order: schema, table, position, name in small letters, type,
-- length in bytes (-1: max), whether it takes null, whether it gets a value when none is given, the last number of
-- RowVersion and whether this login may read the table.
declare @names nvarchar(max) = N'$(names)';

select
    places.name as schema_name,
    queues.name as table_name,
    columns.column_id as position,
    lower(columns.name) as column_name,
    types.name as type_name,
    columns.max_length as max_length,
    columns.is_nullable as is_nullable,
    case when columns.is_identity = 1 or columns.is_computed = 1 then 1 else 0 end as is_filled,
    ident_current(concat(quotename(places.name), N'.', quotename(queues.name))) as last_position,
    has_perms_by_name(
        concat(quotename(places.name), N'.', quotename(queues.name)), N'OBJECT', N'SELECT'
    ) as is_readable
from sys.tables as queues
inner join sys.schemas as places on queues.schema_id = places.schema_id
inner join sys.columns as columns on queues.object_id = columns.object_id
inner join sys.types as types on columns.user_type_id = types.user_type_id
where
    queues.object_id in (
        select candidates.object_id
        from sys.columns as candidates
        where
            lower(candidates.name) in (
                N'id', N'correlationid', N'replytoaddress', N'recoverable', N'expires', N'headers', N'body',
                N'rowversion'
            )
        group by candidates.object_id
        having count(*) >= 6 and max(case when lower(candidates.name) = N'headers' then 1 else 0 end) = 1
    )
    or queues.object_id in (select object_id(value, N'U') from string_split(@names, nchar(10)))
order by places.name, queues.name, columns.column_id;
