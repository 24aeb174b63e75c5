-- Tick one log if PgQ's rules say so, and notify its listeners. Its own transaction: it must be READ COMMITTED.
-- Inserts into pgq.tick; waits while another session drops or rotates it. Returns the tick's id, NULL if none was due.
select pgq.ticker(:'log'::text) as tick
