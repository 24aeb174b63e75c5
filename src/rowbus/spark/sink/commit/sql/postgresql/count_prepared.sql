-- Count those of some prepared transactions that exist now; the view ignores this transaction's snapshot.
-- Locks nothing; returns one number.
select count(*) as found
from pg_catalog.pg_prepared_xacts as p
where p.database = current_database() and p.gid = any(:'gids'::text[])
