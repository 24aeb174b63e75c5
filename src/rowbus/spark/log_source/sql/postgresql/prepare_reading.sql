-- Prepare a session for reading ranges of a log: UTC, a statement timeout and none while Spark takes the rows, no JIT
-- compilation, and a fixed scan method, because the statistics of a growing table mislead the planner.
-- Locks nothing. Returns one value of no interest.
select
    concat(
        set_config('timezone', 'UTC', false),
        set_config('statement_timeout', :'statement_timeout', false),
        set_config('idle_in_transaction_session_timeout', '0', false),
        set_config('jit', 'off', false),
        set_config('enable_seqscan', :'by_block', false),
        set_config('enable_indexscan', :'by_index', false),
        set_config('enable_bitmapscan', :'by_index', false)
    ) as done
