-- Say what time it is by the server's clock.
-- Locks nothing; returns one row with one timestamptz.
select clock_timestamp()
