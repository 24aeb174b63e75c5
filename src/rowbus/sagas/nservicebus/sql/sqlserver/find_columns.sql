-- List the columns of .NET's table by which sagas are found: one, or two while .NET changes over from one to another.
-- Locks nothing; returns their names in the order of the table.
select name
from [$(catalog)].sys.all_columns
where
    object_id = object_id(N'$(shared_saga_name)', N'U')
    and lower(left(name, 12)) = N'correlation_'
order by column_id;
