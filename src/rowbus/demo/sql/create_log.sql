-- Create the demo's log, with its first tick. Locks nothing but what it creates; returns one row: 1.
select pgq.create_queue(:'log'::text) as created
