-- Have the server end this session when its process has shown no sign of life for so many milliseconds, inside or
-- outside a transaction, so that another process can lead.
-- Locks nothing; returns one row that means nothing.
select
    pg_catalog.set_config('idle_session_timeout', (:'silence'::integer)::text, false) as outside,
    pg_catalog.set_config('idle_in_transaction_session_timeout', (:'silence'::integer)::text, false) as inside
