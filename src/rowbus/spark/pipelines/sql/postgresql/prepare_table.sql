-- Make or empty a table of a replica, and note the snapshot that it is going to be filled from.
-- Locks the table until the transaction ends. Returns the COPY statement that fills it.
select
    rowbus_spark.prepare_replica_table(
        :'replica'::text, :'source'::text, :'schema'::text, :'table'::text,
        :'columns'::text[], :'types'::text[], :'required'::text[], :'key'::text[], :'snapshot'::text
    ) as copying
