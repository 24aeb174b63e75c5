-- Find the indexes of one queue by the first column of their key.
-- Locks nothing. Returns a row an index: that column's name in small letters, and whether it is clustered.
select
    lower(columns.name) as first_column,
    case when indexes.type = 1 then 1 else 0 end as is_clustered
from [$(catalog)].sys.indexes as indexes
inner join [$(catalog)].sys.index_columns as keys
    on indexes.object_id = keys.object_id and indexes.index_id = keys.index_id and keys.key_ordinal = 1
inner join [$(catalog)].sys.columns as columns
    on keys.object_id = columns.object_id and keys.column_id = columns.column_id
where indexes.object_id = object_id(N'$(queue_name)', N'U')
order by 1, 2;
