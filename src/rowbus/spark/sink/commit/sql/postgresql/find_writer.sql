-- Look for a batch in the ledger.
-- Locks nothing; returns the query that wrote it (empty: a batch write), or no row.
select l.written_by
from rowbus_spark.ledger as l
where
    l.sink_id = :'sink_id'
    and l.target = :'target'
    and l.query_id = :'query_id'
    and l.batch_id = :'batch_id'::bigint
