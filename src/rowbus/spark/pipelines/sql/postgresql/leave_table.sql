-- Leave a table of a replica as it is: no batch changes it until it is copied anew. Locks the replica's record of the table.
-- Returns nothing.
update rowbus_spark.replica_table
set shape = '', fault = null
where replica = :'replica'::text and source_table = :'source'::text
