-- Make a session fit for moving, against any defaults of the role, the database or the server: READ COMMITTED,
-- read-write, not waiting long for a locked table. `idle_timeout`, if not 0, ends the session when its
-- process has shown no sign of life for so long, in a transaction or not, so that another can lead. Due messages are read
-- by an index, whatever the statistics of their table say.
-- Locks nothing; returns one row that means nothing. The two times are in milliseconds.
select
    set_config('default_transaction_isolation', 'read committed', false) as isolation_level,
    set_config('default_transaction_read_only', 'off', false) as is_read_only,
    set_config('statement_timeout', '0', false) as statement_timeout,
    set_config('enable_bitmapscan', 'off', false) as bitmap_scans,
    set_config('enable_seqscan', 'off', false) as sequential_scans,
    set_config('enable_sort', 'off', false) as sorts,
    set_config('jit', 'off', false) as compiled,
    set_config('lock_timeout', (:'lock_timeout'::integer)::text, false) as lock_timeout,
    set_config('idle_session_timeout', (:'idle_timeout'::integer)::text, false) as idle_session_timeout,
    set_config('idle_in_transaction_session_timeout', (:'idle_timeout'::integer)::text, false) as idle_timeout
