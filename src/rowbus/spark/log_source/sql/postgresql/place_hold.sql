-- Register a consumer at a tick, or move it there, forwards or backwards.
-- Locks the subscription until the transaction ends. Returns 1 if it was registered now, else 0.
select pgq.register_consumer_at(:'log'::text, :'consumer'::text, :'tick'::bigint) as registered
