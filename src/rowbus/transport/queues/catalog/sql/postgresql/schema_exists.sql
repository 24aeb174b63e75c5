-- Say whether a schema exists.
-- Locks nothing; returns one row with one boolean.
select exists(
    select
    from pg_namespace as namespace
    where namespace.nspname = :'schema'::text
)
