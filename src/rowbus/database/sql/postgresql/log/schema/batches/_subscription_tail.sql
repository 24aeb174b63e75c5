-- Return where the newest row versions of pgq.subscription are: the last pages of a table that an old snapshot keeps
-- from being vacuumed, the whole table in ordinary times. A lookup starts there, because a row that changes often has its
-- live version there, and the index knows thousands of dead ones; what is not found there has few dead versions.
-- Who uses it turns `enable_seqscan` off: a plan made while the table was small, and kept, would read all of it.
-- Locks nothing; returns a position to compare `ctid` with.
create or replace function pgq._subscription_tail()
returns tid
language sql
stable
as $$
    select format('(%s,0)', greatest(pg_catalog.pg_relation_size('pgq.subscription') / 8192 - 4, 0))::pg_catalog.tid;
$$;
