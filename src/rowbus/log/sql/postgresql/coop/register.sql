-- Register a member of a cooperative consumer, and the consumer itself, if they are not yet.
-- Locks the consumer's row. Returns 1 if the member was registered now, 0 if it already was.
select pgq_coop.register_subconsumer(:'log'::text, :'consumer'::text, :'subconsumer'::text) as registered
