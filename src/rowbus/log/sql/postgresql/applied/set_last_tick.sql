-- Note up to which tick a consumer applies its log in this database, in this transaction.
-- Locks the consumer's row until the transaction ends. Returns 1.
select pgq_ext.set_last_tick(:'consumer'::text, :'subconsumer'::text, :'tick'::bigint) as noted
