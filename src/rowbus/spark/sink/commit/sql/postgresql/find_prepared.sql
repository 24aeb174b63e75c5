-- Find prepared transactions by how their names begin, made before a moment, that are not decided to be committed.
-- Locks nothing; returns their names.
select p.gid
from pg_catalog.pg_prepared_xacts as p
where
    p.database = current_database()
    and starts_with(p.gid, :'prefix')
    and p.prepared < coalesce(:'before'::timestamptz, 'infinity')
    and not exists (
        select
        from rowbus_spark.decision as d
        where d.gid = p.gid and d.verdict = 'commit'
    )
order by p.gid
