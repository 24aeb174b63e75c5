-- Find the batches that were decided and not finished: their driver died in between.
-- Locks nothing; returns the keys of the batches.
select distinct
    d.sink_id,
    d.target,
    d.query_id,
    d.batch_id
from rowbus_spark.decision as d
where d.verdict = 'commit'
