-- Append the rows of a stage to a table.
-- Locks nothing but the rows it writes; returns how many.
select rowbus_spark.append_stage(:'stage', :'table'::regclass, :'names'::text[], :'types'::text[]) as appended
