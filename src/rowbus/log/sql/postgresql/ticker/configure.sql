-- Make a session fit for ticking under any defaults of the role, the database or the server: READ COMMITTED (else
-- ticks could go backwards), read-write, not waiting long for locks. `idle_timeout`, if not 0, ends the session when
-- its process has shown no sign of life for so long, so that another can lead. `tick_period` is for pgq.ticker. Names
-- are looked up in pg_catalog alone: what maintenance calls shall find there what its author meant.
-- Nothing is compiled: what looks for ticks takes less time than that, whatever old statistics make the planner think.
-- Locks nothing; returns one row that means nothing. The two times are in milliseconds.
select
    pg_catalog.set_config('default_transaction_isolation', 'read committed', false) as isolation_level,
    pg_catalog.set_config('default_transaction_read_only', 'off', false) as is_read_only,
    pg_catalog.set_config('default_transaction_deferrable', 'off', false) as is_deferrable,
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false) as search_path,
    pg_catalog.set_config('statement_timeout', '0', false) as statement_timeout,
    pg_catalog.set_config('jit', 'off', false) as jit,
    pg_catalog.set_config('lock_timeout', (:'lock_timeout'::integer)::text, false) as lock_timeout,
    pg_catalog.set_config('idle_session_timeout', (:'idle_timeout'::integer)::text, false) as idle_timeout,
    pg_catalog.set_config('pgq.tick_period', :'tick_period'::text, false) as tick_period
