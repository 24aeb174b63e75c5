-- Forget the marks that prepared transactions left when they committed.
-- Locks the rows it deletes; affects one row for each that did commit.
delete from rowbus_spark.prepared_part as p
where p.gid = any(:'gids'::text[])
