-- Say whether the catalog has a schema of this name.
-- Locks nothing; returns one row with 1 or 0.
select count(*) as is_there
from sys.schemas
where name = N'$(schema)';
