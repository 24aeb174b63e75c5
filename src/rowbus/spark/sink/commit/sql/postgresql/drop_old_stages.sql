-- Drop the stages made before a moment, except those in use.
-- Waits for nobody; returns how many.
select rowbus_spark.drop_old_stages(:'before'::timestamptz) as dropped
