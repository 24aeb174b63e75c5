-- Have no statement of this session wait for a lock, or run, longer than so many milliseconds: for a store's own
-- connections. Locks nothing; returns one row, unread.
select
    pg_catalog.set_config('lock_timeout', (:'lock_timeout'::integer)::text, false) as lock_timeout,
    pg_catalog.set_config(
        'statement_timeout', (:'statement_timeout'::integer)::text, false
    ) as statement_timeout
