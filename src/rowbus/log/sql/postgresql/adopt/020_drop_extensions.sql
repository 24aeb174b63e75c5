-- Drop PgQ's extensions, which are empty by now, dependent ones first.
-- Locks their catalogue rows; returns nothing. Fails when another extension depends on one of them.
drop extension if exists pgq_coop;

drop extension if exists pgq_ext;

drop extension if exists pgq_node;

drop extension if exists pgq;
