-- Make a session fit for deciding what is read: no compilation, and a server that notices soon when its client is gone,
-- so that the consumer's lock is free again.
-- Locks nothing. Returns one value of no interest.
select
    concat(
        set_config('jit', 'off', false),
        set_config('statement_timeout', :'statement_timeout'::text, false),
        set_config('client_connection_check_interval', '1s', false)
    ) as done
