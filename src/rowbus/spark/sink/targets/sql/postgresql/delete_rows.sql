-- Empty a table that is to hold nothing but the batch.
-- Deletes and locks all rows; returns how many.
select rowbus_spark.clear_table(:'table'::regclass) as cleared
