-- Say when a message sent now would expire: the database's UTC wall time, as the queue's column holds it.
-- Locks nothing; returns one row with one timestamp.
select (now() at time zone 'UTC') + :'time_to_be_received'::interval
