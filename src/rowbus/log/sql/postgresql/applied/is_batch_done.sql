-- Say whether a batch is the last one that a consumer has applied in this database.
-- Locks nothing. Returns one boolean.
select pgq_ext.is_batch_done(:'consumer'::text, :'subconsumer'::text, :'batch'::bigint) as done
