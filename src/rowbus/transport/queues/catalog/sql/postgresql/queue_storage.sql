-- Say what the tables named occupy and how far vacuum is behind, as the statistics collector knows it.
-- Waits for who alters or drops one of them: to be run where waits are short. Locks them against that alone; returns a row
-- a table: schema, name, live and dead rows (estimates), bytes of its file, whether autovacuum is switched on for it, and
-- when it last ran (null: never since the statistics were reset).
select
    statistics.schemaname::text as schema,
    statistics.relname::text as name,
    statistics.n_live_tup as live_rows,
    statistics.n_dead_tup as dead_rows,
    pg_relation_size(statistics.relid) as bytes,
    coalesce(
        (
            select setting.option_value::boolean
            from pg_options_to_table(relation.reloptions) as setting
            where setting.option_name = 'autovacuum_enabled'
        ),
        true
    ) as autovacuum,
    greatest(statistics.last_vacuum, statistics.last_autovacuum) as last_vacuum
from pg_stat_user_tables as statistics
inner join pg_class as relation on statistics.relid = relation.oid
inner join unnest(:'schemas'::text[], :'tables'::text[]) as named (schema, name)
    on
        statistics.schemaname = named.schema::name
        and statistics.relname = named.name::name
order by statistics.schemaname, statistics.relname
