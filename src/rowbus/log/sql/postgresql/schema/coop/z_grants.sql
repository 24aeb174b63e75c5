-- Say who may call pgq_coop: who may read queues, and PUBLIC only what changes nothing.
-- What begins with `_` is called by the others alone, which run as their owner. Locks nothing; returns nothing.
grant usage on schema pgq_coop to public;
revoke all on all functions in schema pgq_coop from public;
grant execute on function
pgq_coop.register_subconsumer(text, text, text),
pgq_coop.unregister_subconsumer(text, text, text, int4),
pgq_coop.next_batch(text, text, text),
pgq_coop.next_batch(text, text, text, interval),
pgq_coop.next_batch_custom(text, text, text, interval, int4, interval),
pgq_coop.next_batch_custom(text, text, text, interval, int4, interval, interval),
pgq_coop.next_batch_info(text, text, text, interval, int4, interval, interval),
pgq_coop.touch_subconsumer(text, text, text),
pgq_coop.finish_batch(bigint)
to pgq_reader;
grant execute on function pgq_coop.version() to public;
