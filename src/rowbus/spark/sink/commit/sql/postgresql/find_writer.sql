-- Look for a batch in the ledger, and for the sink's newest one.
-- Locks nothing; returns the query that wrote the batch (empty: a batch write; NULL: it is not there), and the number of
-- the newest batch of its query that is no older (NULL: there is none).
select
    max(l.written_by) filter (where l.batch_id = :'batch_id'::bigint) as written_by,
    max(l.batch_id) as newest
from rowbus_spark.ledger as l
where
    l.sink_id = :'sink_id'
    and l.target = :'target'
    and l.query_id = :'query_id'
    and l.batch_id >= :'batch_id'::bigint
