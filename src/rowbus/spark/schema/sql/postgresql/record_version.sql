-- Note which version of schema rowbus_spark is installed, and from which text.
-- Locks the row; returns nothing.
insert into rowbus_spark.schema_version (version, digest)
values (:'version'::int4, :'digest')
on conflict (version) do update
set digest = excluded.digest, installed_at = now()
