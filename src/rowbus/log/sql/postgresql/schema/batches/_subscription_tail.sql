-- Return where the newest row versions of pgq.subscription are: the last pages of a table that an old snapshot keeps
-- from being vacuumed, the whole table in ordinary times. A look-up tries first the place where this
-- session last saw or put a row (its setting pgq.subscription_place), then these pages: a row that changes often has
-- its live version there, and the index knows thousands of dead ones; a row that is not there has few dead versions.
-- Callers turn `enable_seqscan` off: a plan made while the table was small, and kept, would read all of it.
-- Locks nothing; returns a position to compare `ctid` with.
create or replace function pgq._subscription_tail()
returns tid
language sql
stable
return format('(%s,0)', greatest(pg_catalog.pg_relation_size('pgq.subscription') / 8192 - 4, 0))::tid;
