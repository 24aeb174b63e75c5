-- Read the settings that decide what a commit is worth and what it costs.
-- Locks nothing; returns one row, in the order of `bench.figures.Settings`.
select
    current_setting('fsync')::boolean as fsync,
    current_setting('full_page_writes')::boolean as full_page_writes,
    current_setting('synchronous_commit') as synchronous_commit,
    current_setting('synchronous_standby_names') <> '' as has_synchronous_standbys,
    current_setting('wal_level') as wal_level,
    pg_size_bytes(current_setting('shared_buffers')) as shared_buffers,
    current_setting('commit_delay')::integer as commit_delay,
    has_function_privilege('pg_catalog.pg_current_wal_insert_lsn()', 'execute') as shows_wal
