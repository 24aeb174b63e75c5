-- Find the stages of a batch that is committed: of runs that died, of attempts that lost against another. Not those of
-- other batches: batch writes under one name may run side by side.
-- Locks nothing; returns their names.
select s.stage_name
from rowbus_spark.stage as s
where
    s.sink_id = :'sink_id'
    and s.target = :'target'
    and s.query_id = :'query_id'
    and s.batch_id = :'batch_id'::bigint
