-- Forget the batches of a stream that Spark can no longer repeat: older than any checkpoint keeps, and than a week.
-- Locks the rows it deletes from the ledger; returns how many.
delete from rowbus_spark.ledger as l
where
    l.sink_id = :'sink_id'
    and l.target = :'target'
    and l.query_id = :'query_id'
    and l.batch_id < :'batch_id'::bigint - :'keep'::bigint
    and l.committed_at < now() - interval '7 days'
