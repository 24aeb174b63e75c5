-- Remove a consumer from a log with its retry queue.
-- Deletes its subscription and those of its subconsumers. Returns how many rows that were; 0 means there was none.
select pgq.unregister_consumer(:'log'::text, :'consumer'::text) as unregistered
