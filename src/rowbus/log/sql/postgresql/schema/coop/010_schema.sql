-- Create the schema pgq_coop: several subconsumers share one consumer's batches. It has no tables: a subconsumer `s`
-- of the consumer `c` is a consumer named `c.s` with the same `sub_id`; its ticks and batch are NULL while it is idle.
-- A batch that a subconsumer handed back belongs to a row of the same kind, whose consumer is named
-- `.c.returned.<batch>`: so rotation waits for it, and the next subconsumer that asks gets it.
-- Locks what is created; returns nothing.
create schema if not exists pgq_coop;
