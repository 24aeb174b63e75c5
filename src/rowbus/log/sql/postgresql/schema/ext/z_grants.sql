-- Grant pgq_ext to roles that may write to queues; to PUBLIC only what changes nothing.
-- The functions run as their owner, so no caller needs rights on the tables. Locks nothing; returns nothing.
grant usage on schema pgq_ext to public;
revoke all on all functions in schema pgq_ext from public;
grant execute on all functions in schema pgq_ext to pgq_writer;
grant execute on function pgq_ext.version() to public;
