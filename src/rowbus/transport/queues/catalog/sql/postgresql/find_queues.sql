-- Find the tables that are queues, or were before they were changed (four of the five columns by name, `headers`
-- among them, and no `lease`, which running work has), and those named. Locks nothing; returns schema, name, persistence,
-- columns, unique keys, the sequence behind `seq` with its end, and whether this role may read the table, ordered by schema
-- and name. A type of pg_catalog has its plain name, any other one its schema's, too; the session's settings change neither.
with candidates as (
    select attribute.attrelid as id
    from pg_attribute as attribute
    where
        attribute.attname in ('id', 'expires', 'headers', 'body', 'seq', 'lease')
        and attribute.attnum > 0
        and not attribute.attisdropped
    group by attribute.attrelid
    having
        count(*) >= 4
        and bool_or(attribute.attname = 'headers')
        and not bool_or(attribute.attname = 'lease')
    union distinct
    select relation.oid as id
    from unnest(:'schemas'::text[], :'tables'::text[]) as named (schema, name)
    inner join pg_namespace as namespace on namespace.nspname = named.schema::name
    inner join pg_class as relation
        on
            namespace.oid = relation.relnamespace
            and relation.relname = named.name::name
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
                    'type', case
                        when type.typnamespace = 'pg_catalog'::regnamespace
                            then translate(format_type(attribute.atttypid, attribute.atttypmod), '"', '')
                        else format('%s.%s', type.typnamespace::regnamespace::text, quote_ident(type.typname))
                    end,
                    'nullable', not attribute.attnotnull,
                    'filled', attribute.atthasdef or attribute.attidentity <> ''
                )
                order by attribute.attnum
            )
        from pg_attribute as attribute
        inner join pg_type as type on attribute.atttypid = type.oid
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
    owned.last as sequence_last,
    has_schema_privilege(namespace.oid, 'usage') and has_table_privilege(relation.oid, 'select') as readable
from pg_class as relation
inner join pg_namespace as namespace on relation.relnamespace = namespace.oid
left join lateral (
    select
        counter.relname::text as name,
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
    and namespace.nspname not like e'pg\\_%'
    and namespace.nspname <> 'information_schema'
order by namespace.nspname, relation.relname
