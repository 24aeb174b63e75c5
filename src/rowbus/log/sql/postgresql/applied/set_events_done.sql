-- Note that a consumer applies events of a batch in this database, in this transaction.
-- Locks the consumer's row until the transaction ends. Returns the ids of those that had not been applied before.
select e.id
from unnest(:'events'::bigint[]) as e (id)
where pgq_ext.set_event_done(:'consumer'::text, :'subconsumer'::text, :'batch'::bigint, e.id)
