-- Note that a table of a replica stands still, and why. Locks the replica's record of the table. Returns nothing.
select rowbus_spark.note_faults(:'replica'::text, jsonb_build_object(:'source'::text, :'fault'::text)) as done
