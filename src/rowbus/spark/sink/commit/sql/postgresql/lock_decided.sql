-- List what find_decided.sql lists, and keep others from finishing it until this transaction ends.
-- Locks the rows, waiting for who has them; returns their names.
select d.gid
from rowbus_spark.decision as d
where
    d.verdict = 'commit'
    and d.sink_id = :'sink_id'
    and d.target = :'target'
    and d.query_id = :'query_id'
    and d.batch_id = :'batch_id'::bigint
order by d.gid
for update
