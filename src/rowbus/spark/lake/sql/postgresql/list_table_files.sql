-- List the files of a table and of its partitions: others after TRUNCATE, and after a change that writes its rows anew.
-- Locks nothing, not even the tables; returns one JSON object: files by the numbers of tables.
with recursive tree as (
    select :'table'::bigint::oid as number
    union all
    select child.oid as number
    from tree
    inner join pg_catalog.pg_inherits as i on tree.number = i.inhparent
    inner join pg_catalog.pg_class as child on i.inhrelid = child.oid
    where child.relispartition
)

select coalesce(jsonb_object_agg(c.oid::bigint::text, c.relfilenode::text), '{}')
from tree
inner join pg_catalog.pg_class as c on tree.number = c.oid
