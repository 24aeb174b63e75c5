create or replace function pgq._subscription_place()
returns tid
language sql
stable
return coalesce(
    nullif(pg_catalog.current_setting('pgq.subscription_place', true), ''), '(0,0)'
)::pg_catalog.tid;
