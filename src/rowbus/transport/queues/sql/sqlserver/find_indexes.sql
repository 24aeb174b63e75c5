-- Find the indexes of one queue by the first column of their key.
-- Locks nothing. Returns a row an index: that column's name in small letters, and whether it is clustered; and a row with an
-- empty name for the table itself, so that a table without indexes differs from a missing one.
declare @id int = object_id(N'$(queue_name)', N'U');

select
    N'' as first_column,
    0 as is_clustered
where @id is not null
union all
select
    lower(columns.name) as first_column,
    case when indexes.type = 1 then 1 else 0 end as is_clustered
from [$(catalog)].sys.indexes as indexes
inner join [$(catalog)].sys.index_columns as keys
    on indexes.object_id = keys.object_id and indexes.index_id = keys.index_id and keys.key_ordinal = 1
inner join [$(catalog)].sys.all_columns as columns
    on keys.object_id = columns.object_id and keys.column_id = columns.column_id
where indexes.object_id = @id;
