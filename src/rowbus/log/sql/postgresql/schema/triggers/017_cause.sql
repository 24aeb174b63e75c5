-- Returns what says of this transaction that it causes its changes, as database/sql/postgresql/set_cause.sql has set it;
-- NULL where nothing does. What has the argument cause writes it as ev_extra4. Locks nothing.
create or replace function pgq.current_cause()
returns text
language sql stable
return nullif(pg_catalog.current_setting('rowbus.cause', true), '');

-- Says whether a trigger has the argument cause, which captures of ours have and PgQ does not. i_args: from 0, where the
-- queue is. Locks nothing.
create or replace function pgq.tells_cause(i_args text[])
returns boolean
language sql immutable
return 'cause' = any(i_args[1:]);
