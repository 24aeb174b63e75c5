-- Return where this session saw or put a row of pgq.subscription last (see _subscription_tail); nowhere, if it did not.
-- It is a guess: who uses it also compares what the row says. Locks nothing.
create or replace function pgq._subscription_place()
returns tid
language sql
stable
return coalesce(
    nullif(pg_catalog.current_setting('pgq.subscription_place', true), ''), '(0,0)'
)::pg_catalog.tid;
