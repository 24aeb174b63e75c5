-- Change one of PgQ's own settings of a log.
-- Locks the log's row. Returns 1.
select pgq.set_queue_config(:'log'::text, :'name'::text, :'value'::text) as done
