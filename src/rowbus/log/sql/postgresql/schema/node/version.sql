-- Say with which release of pgq_node this schema is call-compatible.
-- Locks nothing; returns that version.
create or replace function pgq_node.version()
returns text
language sql
immutable
as $$ select '3.5'::pg_catalog.text $$;
