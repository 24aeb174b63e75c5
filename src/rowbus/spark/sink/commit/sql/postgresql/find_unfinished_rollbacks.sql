-- Find the prepared transactions that were to be rolled back by somebody who died.
-- Locks nothing; returns their names.
select d.gid
from rowbus_spark.decision as d
where d.verdict = 'rollback'
