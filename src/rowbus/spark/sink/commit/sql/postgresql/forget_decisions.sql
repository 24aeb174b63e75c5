-- Forget decisions that have been carried out.
-- Locks the rows it deletes from decision; returns nothing.
delete from rowbus_spark.decision as d
where d.gid = any(:'gids'::text[])
