-- Note the shape of the source that a copy shows. Locks the replica's record of the table. Returns nothing.
update rowbus_spark.replica_table
set shape = :'shape'::text
where replica = :'replica'::text and source_table = :'source'::text
