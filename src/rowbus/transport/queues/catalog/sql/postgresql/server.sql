-- Gather what decides whether Rowbus can work with this server, and how safely; the time zone is the one a session
-- has that sets none. Locks nothing; returns one row, in the order of `model.diagnosis.ServerFacts`.
select
    current_setting('server_version_num')::integer as version_number,
    current_setting('server_version') as version,
    current_database()::text as database_name,
    current_user::text as role,
    pg_is_in_recovery() as is_standby,
    current_setting('default_transaction_read_only')::boolean as is_read_only,
    current_setting('server_encoding') as encoding,
    (
        select setting.reset_val
        from pg_settings as setting
        where setting.name = 'TimeZone'
    ) as time_zone,
    current_setting('fsync')::boolean and current_setting('full_page_writes')::boolean as survives_crashes,
    current_setting('synchronous_commit') <> 'off' as waits_for_commits,
    current_setting('autovacuum')::boolean and current_setting('track_counts')::boolean as autovacuum,
    current_setting('max_connections')::integer
    - current_setting('superuser_reserved_connections')::integer
    - coalesce(current_setting('reserved_connections', true)::integer, 0) as connection_limit,
    (
        select sum(activity.numbackends)::integer
        from pg_stat_database as activity
    ) as connections,
    pg_has_role('pg_read_all_stats', 'usage') as sees_all_sessions,
    (
        select jsonb_object_agg(setting.name, setting.setting::integer)
        from pg_settings as setting
        where
            setting.name in (
                'idle_in_transaction_session_timeout',
                'idle_session_timeout',
                'lock_timeout',
                'statement_timeout',
                'transaction_timeout'
            )
            and setting.setting <> '0'
    ) as timeouts,
    (
        select jsonb_object_agg(role.rolname, substr(setting.entry, length('TimeZone=') + 1))
        from pg_db_role_setting as defaults
        inner join pg_roles as role on defaults.setrole = role.oid
        inner join pg_database as here on here.datname = current_database()
        cross join lateral unnest(defaults.setconfig) as setting (entry)
        where
            lower(setting.entry) like 'timezone=%'
            and defaults.setdatabase in (0, here.oid)
    ) as role_time_zones
