-- Drop stages, whether they are still there or not.
-- Waits for sessions that use them; returns how many were known.
select rowbus_spark.drop_stages(:'stages'::text[]) as dropped
