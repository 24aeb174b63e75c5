-- Merge stages into a table by key, the newest row of each key, if nothing newer is known of it.
-- Locks the rows it changes; returns how many keys it changed.
select
    rowbus_spark.merge_stages(
        :'stages'::text[],
        :'table'::regclass,
        :'names'::text[],
        :'types'::text[],
        :'keys'::text[],
        :'sequence'::text,
        :'delete'::text,
        :'delete_values'::text[]
    ) as changed
