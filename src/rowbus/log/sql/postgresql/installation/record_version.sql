-- Note that this version of the schema is installed.
-- Locks the row it writes; returns nothing.
insert into pgq.schema_version (version)
values (:'version')
on conflict (version) do nothing
