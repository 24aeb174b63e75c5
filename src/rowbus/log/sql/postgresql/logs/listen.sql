-- Listen for the log's ticks, until the session ends.
-- Locks nothing; returns nothing.
listen :"channel"
