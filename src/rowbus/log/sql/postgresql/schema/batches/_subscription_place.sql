-- Return where this session last saw or put a row of pgq.subscription (see _subscription_tail); nowhere, if it did not.
-- It is a guess: its users compare the row's columns, too. Locks nothing.
create or replace function pgq._subscription_place()
returns tid
language sql
stable
return coalesce(
    nullif(pg_catalog.current_setting('pgq.subscription_place', true), ''), '(0,0)'
)::pg_catalog.tid;
