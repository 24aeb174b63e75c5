-- Delete a replica's position and checkpoint, because its tables are copied again in this transaction.
-- Locks the replica; returns nothing.
with forgotten as (
    delete from rowbus_spark.replica_table
    where replica = :'replica'::text
)

update rowbus_spark.replica
set query_id = null, last_batch = null, changed_at = now()
where replica = :'replica'::text
