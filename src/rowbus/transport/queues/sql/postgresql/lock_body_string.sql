-- Wait for the lock under which NServiceBus endpoints and Rowbus add the BodyString column, one at a time.
-- Holds a transaction-scoped advisory lock whose key both derive from the queue's canonical name; returns one empty row.
select pg_advisory_xact_lock(:'body_string_lock'::bigint)
