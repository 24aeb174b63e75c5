-- Drop a log with its events; with `force` also the registrations of its consumers.
-- Locks the log's row and its tables. Returns 1.
select pgq.drop_queue(:'log'::text, :'force'::boolean) as dropped
