-- Tick one log if PgQ's rules say so, and notify its listeners. Its own transaction: it must be READ COMMITTED.
-- Inserts into pgq.tick; waits for whoever is dropping or rotating the log. Returns the tick's id, NULL if none was due.
select pgq.ticker(:'log'::text) as tick
