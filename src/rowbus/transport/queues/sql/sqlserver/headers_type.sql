-- Say of what type the column Headers of the queue's table is: old tables have varchar, which loses characters.
-- Locks nothing; returns one row with the type's name, none for a missing table.
select types.name as type_name
from [$(catalog)].sys.all_columns as columns
inner join [$(catalog)].sys.types as types on columns.user_type_id = types.user_type_id
where columns.object_id = object_id(N'$(queue_name)', N'U') and lower(columns.name) = N'headers';
