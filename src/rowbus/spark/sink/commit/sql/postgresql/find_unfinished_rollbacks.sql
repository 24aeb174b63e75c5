-- Find prepared transactions that were decided to roll back, by a process that died before it did.
-- Locks nothing; returns their names.
select d.gid
from rowbus_spark.decision as d
where d.verdict = 'rollback'
