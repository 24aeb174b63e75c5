-- Drop the stages made before a moment, except those in use.
-- Never waits; returns how many.
select rowbus_spark.drop_old_stages(:'before'::timestamptz) as dropped
