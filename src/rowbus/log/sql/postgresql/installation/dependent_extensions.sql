-- List the extensions, beyond PgQ's own, that depend on one of PgQ's, or on one that does: to take PgQ over, they have to
-- cease to be extensions. Locks nothing; returns one row a name.
with recursive dependent as (
    select
        e.oid,
        e.extname
    from pg_extension as e
    where e.extname in ('pgq_node', 'pgq_coop', 'pgq_ext', 'pgq')

    union

    select
        d.oid,
        d.extname
    from dependent as r
        inner join pg_depend as p on r.oid = p.refobjid and p.refclassid = 'pg_extension'::regclass
        inner join pg_extension as d on p.classid = 'pg_extension'::regclass and p.objid = d.oid
)

select r.extname
from dependent as r
where r.extname not in ('pgq_node', 'pgq_coop', 'pgq_ext', 'pgq')
order by 1
