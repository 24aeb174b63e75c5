-- Forget how far a replica has come and from which checkpoint, as its tables are copied anew in this transaction.
-- Locks the replica; returns nothing.
with forgotten as (
    delete from rowbus_spark.replica_table
    where replica = :'replica'::text
)

update rowbus_spark.replica
set query_id = null, last_batch = null, changed_at = now()
where replica = :'replica'::text
