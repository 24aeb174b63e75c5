-- Register a subconsumer, and its main consumer, if they are not registered yet.
-- Locks the consumer's row. Returns 1 if the subconsumer was registered now, 0 if it already was.
select pgq_coop.register_subconsumer(:'log'::text, :'consumer'::text, :'subconsumer'::text) as registered
