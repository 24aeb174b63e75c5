-- Say with which release of pgq_coop this schema is call-compatible.
-- Locks nothing; returns that version.
create or replace function pgq_coop.version()
returns text
language sql
immutable
as $$ select '3.4'::pg_catalog.text $$;
