-- Make a session fit for looks into queues and tables of delayed messages, and for nothing else: a locked table does not
-- hold up the looks into the others, and looks read by an index, whatever the statistics of a table say.
-- Locks nothing; returns one row that means nothing.
select
    set_config('lock_timeout', '250ms', false) as lock_timeout,
    set_config('enable_bitmapscan', 'off', false) as bitmap_scans,
    set_config('enable_seqscan', 'off', false) as sequential_scans,
    set_config('enable_sort', 'off', false) as sorts,
    set_config('jit', 'off', false) as compiled
