-- Forget the marks that prepared transactions left when they committed.
-- Deletes from prepared_part; affects one row for each that did commit.
delete from rowbus_spark.prepared_part as p
where p.gid = any(:'gids'::text[])
