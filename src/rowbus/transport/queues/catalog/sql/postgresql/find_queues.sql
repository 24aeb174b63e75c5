-- Find the tables that are queues, or were before they were changed (four of the five columns by name, `headers`
-- among them), and those named. Locks nothing; returns schema, name, persistence, columns, unique keys, the sequence
-- behind `seq` with its position and end, and whether this role may read the table, ordered by schema and name.
with candidates as (
    select attribute.attrelid as id
    from pg_attribute as attribute
    where
        attribute.attname in ('id', 'expires', 'headers', 'body', 'seq')
        and attribute.attnum > 0
        and not attribute.attisdropped
    group by attribute.attrelid
    having count(*) >= 4 and bool_or(attribute.attname = 'headers')
    union distinct
    select to_regclass(named.name)::oid
    from unnest(:'names'::text[]) as named (name)
)

select
    namespace.nspname::text as schema,
    relation.relname::text as name,
    relation.relpersistence::text as persistence,
    (
        select
            jsonb_agg(
                jsonb_build_object(
                    'name', attribute.attname,
                    'type', format_type(attribute.atttypid, attribute.atttypmod),
                    'nullable', not attribute.attnotnull,
                    'filled', attribute.atthasdef or attribute.attidentity <> ''
                )
                order by attribute.attnum
            )
        from pg_attribute as attribute
        where
            attribute.attrelid = relation.oid
            and attribute.attnum > 0
            and not attribute.attisdropped
    ) as columns,
    (
        select
            jsonb_agg(
                jsonb_build_object(
                    'is_primary', unique_index.indisprimary,
                    'columns', array(
                        select attribute.attname
                        from unnest(unique_index.indkey::smallint[]) with ordinality as key (number, position)
                        inner join pg_attribute as attribute
                            on
                                relation.oid = attribute.attrelid
                                and key.number = attribute.attnum
                        where key.position <= unique_index.indnkeyatts
                        order by key.position
                    )
                )
            )
        from pg_index as unique_index
        where
            unique_index.indrelid = relation.oid
            and unique_index.indisunique
            and unique_index.indisvalid
            and unique_index.indpred is null
            and unique_index.indexprs is null
    ) as keys,
    owned.name as sequence_name,
    owned.position as sequence_position,
    owned.last as sequence_last,
    has_table_privilege(relation.oid, 'select') as readable
from pg_class as relation
inner join pg_namespace as namespace on relation.relnamespace = namespace.oid
left join lateral (
    select
        counter.relname::text as name,
        case
            when has_sequence_privilege(counter.oid, 'select, usage') then pg_sequence_last_value(counter.oid)
        end as position,
        least(definition.seqmax, 2147483647) as last
    from pg_depend as dependency
    inner join pg_class as counter on dependency.objid = counter.oid
    inner join pg_sequence as definition on counter.oid = definition.seqrelid
    inner join pg_attribute as attribute
        on
            dependency.refobjid = attribute.attrelid
            and dependency.refobjsubid = attribute.attnum
    where
        dependency.classid = 'pg_class'::regclass
        and dependency.refclassid = 'pg_class'::regclass
        and dependency.refobjid = relation.oid
        and dependency.deptype in ('a', 'i')
        and attribute.attname = 'seq'
    order by counter.oid
    limit 1
) as owned on true
where
    relation.oid in (select candidates.id from candidates)
    and relation.relkind in ('r', 'p')
    and namespace.nspname not like 'pg\_%'
    and namespace.nspname <> 'information_schema'
order by namespace.nspname, relation.relname
