-- Read the newest version of the schema that was installed here.
-- Locks nothing; returns one row, NULL when none was.
select max(version) as version
from pgq.schema_version
