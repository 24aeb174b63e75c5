-- Make a new connection ours: times are UTC, and the server finds out within seconds that its client's machine or the
-- network is gone, and frees what the session has locked. What its administrator has set stays: only two hours, the
-- usual time of operating systems, or more, and no limit at all, are replaced. Means nothing on a local socket.
-- Locks nothing; returns one row: which process of the server the session has, which a pooler's client does not know.
select
    pg_catalog.pg_backend_pid() as backend,
    pg_catalog.set_config('timezone', 'UTC', false) as timezone,
    case
        when pg_catalog.current_setting('tcp_keepalives_idle')::integer not between 1 and 7199
            then
                pg_catalog.set_config('tcp_keepalives_idle', '5', false)
                || pg_catalog.set_config('tcp_keepalives_interval', '2', false)
                || pg_catalog.set_config('tcp_keepalives_count', '3', false)
    end as keepalives,
    case
        when pg_catalog.current_setting('tcp_user_timeout')::integer = 0
            then pg_catalog.set_config('tcp_user_timeout', '10000', false)
    end as user_timeout
