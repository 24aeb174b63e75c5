-- Prepare a session for planning: no JIT compilation, and quick detection of a lost client, which frees the consumer's
-- lock.
-- Locks nothing. Returns one value of no interest.
select
    concat(
        set_config('jit', 'off', false),
        set_config('statement_timeout', :'statement_timeout'::text, false),
        set_config('client_connection_check_interval', '1s', false)
    ) as done
