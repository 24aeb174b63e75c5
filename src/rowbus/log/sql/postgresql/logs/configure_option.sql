-- Change one of the settings that Rowbus adds to a log; NULL unsets it.
-- Locks the row of the log's options. Returns 1.
select pgq.set_queue_option(:'log'::text, :'name'::text, :'value'::text) as done
