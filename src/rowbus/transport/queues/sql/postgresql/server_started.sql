-- Say when the server was started: another time than before means that what was in hand was lost with the server.
-- Locks nothing; returns one row with one time.
select pg_postmaster_start_time()
