-- Fix what a copy sees, at the start of its transaction, and how values look as text: as exact captures write them,
-- whatever the settings of the database and the role. Names of types have their schema, too. No timeout ends a copy.
-- Locks nothing. Returns the snapshot, a time after it was taken, and one before: microseconds since 1970, with a space
-- between.
select
    concat_ws(
        ' ',
        pg_current_snapshot(),
        (extract(epoch from clock_timestamp()) * 1000000)::bigint,
        (extract(epoch from transaction_timestamp()) * 1000000)::bigint
    ) as snapshot,
    concat(
        (
            select count(set_config(timeout.name, '0', true))
            from pg_settings as timeout
            where
                timeout.name in (
                    'idle_in_transaction_session_timeout', 'statement_timeout', 'transaction_timeout'
                )
        ),
        set_config('timezone', 'UTC', true),
        set_config('datestyle', 'ISO', true),
        set_config('lc_monetary', 'C', true),
        set_config('intervalstyle', 'postgres', true),
        set_config('extra_float_digits', '1', true),
        set_config('bytea_output', 'hex', true),
        set_config('quote_all_identifiers', 'off', true),
        set_config('search_path', 'pg_catalog', true)
    ) as settings
