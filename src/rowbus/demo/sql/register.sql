-- Register a consumer of the log, which is given what commits from now on.
-- Locks the consumer's row; returns one row: 1, or 0 when it was registered already.
select pgq.register_consumer(:'log'::text, :'consumer'::text) as registered
