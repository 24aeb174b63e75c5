-- Drop stages, whether they are still there or not.
-- Waits for whoever uses them; returns how many were known.
select rowbus_spark.drop_stages(:'stages'::text[]) as dropped
