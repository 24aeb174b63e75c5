-- Set the session's time zone to UTC, and let it wait for Spark within its transaction.
-- Locks nothing; returns one row with one text.
select
    concat(
        set_config('timezone', 'UTC', false),
        set_config('idle_in_transaction_session_timeout', '0', false)
    ) as done
