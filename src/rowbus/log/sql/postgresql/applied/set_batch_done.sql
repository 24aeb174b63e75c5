-- Note that a consumer applies a batch in this database, in this transaction.
-- Locks the consumer's row until the transaction ends. Returns false if the batch had been applied before.
select pgq_ext.set_batch_done(:'consumer'::text, :'subconsumer'::text, :'batch'::bigint) as first_time
