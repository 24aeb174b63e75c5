-- Apply a batch of changes that wait in stages, all tables in this transaction.
-- Locks the replica, the rows written, and the tables that were truncated. Returns how many changes; null: done before.
select
    rowbus_spark.apply_changes(
        :'replica'::text, :'query'::text, :'batch'::bigint, :'stages'::text[]
    ) as changes
