-- Prepare a session for planning: no JIT compilation, no end while it only holds tables or the consumer's lock, and
-- quick detection of a lost client, which frees that lock.
-- Locks nothing. Returns one value of no interest.
select
    concat(
        set_config('jit', 'off', false),
        set_config('statement_timeout', :'statement_timeout'::text, false),
        set_config('idle_in_transaction_session_timeout', '0', false),
        set_config('idle_session_timeout', '0', false),
        set_config('client_connection_check_interval', '1s', false)
    ) as done
