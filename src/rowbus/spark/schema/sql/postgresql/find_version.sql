-- Say which version of schema rowbus_spark is installed, and from which text.
-- Locks nothing; returns the newest row, if any.
select
    v.version,
    v.digest
from rowbus_spark.schema_version as v
order by v.version desc
limit 1
