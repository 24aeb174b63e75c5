-- Make a session fit for reading ranges of a log: UTC, a limit of time, no compilation, and the way to read that is
-- right although the statistics of a table that is filling know nothing of it.
-- Locks nothing. Returns one value of no interest.
select
    concat(
        set_config('timezone', 'UTC', false),
        set_config('statement_timeout', :'statement_timeout', false),
        set_config('jit', 'off', false),
        set_config('enable_seqscan', :'by_block', false),
        set_config('enable_indexscan', :'by_index', false),
        set_config('enable_bitmapscan', :'by_index', false)
    ) as done
