-- Say with which release of pgq_ext this schema is call-compatible.
-- Locks nothing; returns that version.
create or replace function pgq_ext.version()
returns text
language sql
immutable
as $$ select '3.2.6'::pg_catalog.text $$;
