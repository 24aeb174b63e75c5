-- List the extensions, beyond PgQ's own, that depend on one of PgQ's: they keep it from being taken over.
-- Locks nothing; returns one row a name.
select distinct d.extname
from pg_extension as e
    inner join pg_depend as p on e.oid = p.refobjid and p.refclassid = 'pg_extension'::regclass
    inner join pg_extension as d on p.classid = 'pg_extension'::regclass and p.objid = d.oid
where e.extname in ('pgq_node', 'pgq_coop', 'pgq_ext', 'pgq')
    and d.extname not in ('pgq_node', 'pgq_coop', 'pgq_ext', 'pgq')
order by 1
