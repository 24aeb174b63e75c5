-- List the prepared transactions that a batch was decided to consist of, and that are not known to be finished.
-- Locks nothing; returns their names.
select d.gid
from rowbus_spark.decision as d
where
    d.verdict = 'commit'
    and d.sink_id = :'sink_id'
    and d.target = :'target'
    and d.query_id = :'query_id'
    and d.batch_id = :'batch_id'::bigint
order by d.gid
