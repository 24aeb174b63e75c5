-- List the columns of the queue's table, by which the statements that fit it are chosen: some tables lack Recoverable, or
-- the legacy columns. Locks nothing; returns one row a column with its name in small letters, none for a missing table.
select lower(name) as name
from [$(catalog)].sys.all_columns
where object_id = object_id(N'$(queue_name)', N'U');
