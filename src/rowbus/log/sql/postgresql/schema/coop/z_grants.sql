-- Grant pgq_coop to roles that may read queues; to PUBLIC only what changes nothing.
-- Only the other functions, which run as their owner, call those that begin with `_`. Locks nothing; returns nothing.
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
