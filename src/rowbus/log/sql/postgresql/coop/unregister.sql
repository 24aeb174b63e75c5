-- Remove a subconsumer from its consumer; the next subconsumer that asks gets the batch that it has.
-- Locks the consumer's and the subconsumer's rows until the transaction ends. Returns 1, or 0 if it is not registered.
select pgq_coop.unregister_subconsumer(:'log'::text, :'main'::text, :'subconsumer'::text, 1) as unregistered
