-- Forget batch writes that named no transaction of theirs: nothing can repeat them.
-- Locks the rows it deletes from the ledger; returns how many.
delete from rowbus_spark.ledger as l
where
    l.sink_id like 'run:%'
    and l.committed_at < :'before'::timestamptz
