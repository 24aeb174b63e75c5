-- Create a log, with its first tick.
-- Locks nothing but what it creates. Returns 1, or 0 when it is there already.
select pgq.create_queue(:'log'::text) as created
