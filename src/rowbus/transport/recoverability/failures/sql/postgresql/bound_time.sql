-- Have no statement of this transaction run longer than so many milliseconds.
-- Locks nothing; returns one row, unread.
select
    pg_catalog.set_config(
        'statement_timeout', (:'statement_timeout'::integer)::text, true
    ) as statement_timeout
