-- Drop the event log: every queue with its events, and the triggers that use its functions. Roles stay: they are the
-- whole server's.
-- Locks everything it drops, until the end of the transaction; returns nothing.
drop schema if exists pgq_node cascade;

drop schema if exists pgq_coop cascade;

drop schema if exists pgq_ext cascade;

drop schema if exists pgq cascade;
