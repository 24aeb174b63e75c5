-- Read what the statistics collector has counted for tables, and what this role may do with them. The counters cost
-- those who write nothing more than they cost anyway; inserts that were rolled back are counted, too.
-- Locks nothing; returns a row a table that exists: schema, name, rows inserted and deleted since the last reset, live
-- rows (an estimate), and whether this role may delete from it.
select
    namespace.nspname::text as schema,
    relation.relname::text as name,
    pg_stat_get_tuples_inserted(relation.oid) as inserted,
    pg_stat_get_tuples_deleted(relation.oid) as deleted,
    pg_stat_get_live_tuples(relation.oid) as live,
    has_table_privilege(relation.oid, 'delete') as may_delete
from pg_class as relation
inner join pg_namespace as namespace on relation.relnamespace = namespace.oid
inner join unnest(:'schemas'::text[], :'tables'::text[]) as named (schema, name)
    on
        namespace.nspname = named.schema::name
        and relation.relname = named.name::name
