-- Create the stage of one attempt of one task, and note whose it is.
-- Locks what is created; returns one empty row.
select
    rowbus_spark.create_stage(
        :'stage', :'types'::text[], :'sink_id', :'target', :'query_id', :'batch_id'::bigint
    ) as created
