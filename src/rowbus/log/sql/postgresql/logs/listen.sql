-- Hear of the log's ticks; the session listens until it ends.
-- Locks nothing; returns nothing.
listen :"channel"
