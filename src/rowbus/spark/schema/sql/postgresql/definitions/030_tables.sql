-- Name a type with its schema, without modifiers. What writes to the user's tables runs with the user's search path, for
-- its triggers and defaults do too; so the statements that are built name everything with its schema.
create or replace function rowbus_spark.type_name(i_type oid)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select format('%I.%I', n.nspname, t.typname)
    from pg_catalog.pg_type as t
    inner join pg_catalog.pg_namespace as n on t.typnamespace = n.oid
    where t.oid = i_type
$$;

-- Name the operator with which a type's default index says that two values are equal, with its schema.
create or replace function rowbus_spark.equality(i_type oid)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(min(format('operator(%I.%s)', n.nspname, o.oprname)), 'operator(pg_catalog.=)')
    from pg_catalog.pg_opclass as c
    inner join pg_catalog.pg_amop as a
        on c.opcfamily = a.amopfamily and c.opcintype = a.amoplefttype and c.opcintype = a.amoprighttype
    inner join pg_catalog.pg_operator as o on a.amopopr = o.oid
    inner join pg_catalog.pg_namespace as n on o.oprnamespace = n.oid
    where c.opcmethod = (select m.oid from pg_catalog.pg_am as m where m.amname = 'btree')
        and c.opcdefault and c.opcintype = i_type and a.amopstrategy = 3
$$;

-- Give the type of an expression another one, for an INSERT: without type modifiers, so that a text too long for its
-- column is refused and never cut; text is UTF-8 where it becomes bytes. Returns the text of the new expression.
create or replace function rowbus_spark.converted(i_expression text, i_from regtype, i_to regtype)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select
        case
            when i_from = i_to then i_expression
            when i_from = 'text'::regtype and i_to = 'bytea'::regtype
                then format('pg_catalog.convert_to(%s, ''UTF8'')', i_expression)
            when i_from = 'bytea'::regtype and i_to in ('text'::regtype, 'varchar'::regtype)
                then format('pg_catalog.convert_from(%s, ''UTF8'')', i_expression)
            when i_from = 'bytea'::regtype and i_to = 'uuid'::regtype
                then format('pg_catalog.encode(%s, ''hex'')::pg_catalog.uuid', i_expression)
            when i_from <> 'text'::regtype and i_to in ('json'::regtype, 'jsonb'::regtype)
                then format('pg_catalog.to_jsonb(%s)::%s', i_expression, rowbus_spark.type_name(i_to))
            else format('%s::%s', i_expression, rowbus_spark.type_name(i_to))
        end
$$;

-- Say which columns a table has, for the names that are given: by the very name, else by the only one that differs in
-- case. Locks nothing; returns a row for each name, with no column where the table lacks it.
create or replace function rowbus_spark.target_columns(i_target regclass, i_names text[])
returns table (name_given text, name_there text, type_there regtype)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select
        given.name_given,
        coalesce(exact.attname, alike.attname)::text,
        coalesce(exact.atttypid, alike.atttypid)::regtype
    from unnest(i_names) with ordinality as given (name_given, position)
    left join pg_catalog.pg_attribute as exact
        on exact.attrelid = i_target and exact.attname = given.name_given
        and exact.attnum > 0 and not exact.attisdropped
    left join lateral (
        select min(a.attname::text) as attname, min(a.atttypid::oid::bigint)::oid as atttypid
        from pg_catalog.pg_attribute as a
        where a.attrelid = i_target and lower(a.attname) = lower(given.name_given)
        and a.attnum > 0 and not a.attisdropped
        having count(*) = 1
    ) as alike on exact.attname is null
    order by given.position
$$;

-- Write the COPY that takes rows of these types straight into a table; nothing if a column has another type there,
-- whose binary form would be misread, or if COPY would pass over what INSERT does not: rules, row security, views.
-- Locks nothing; returns the statement, or null.
create or replace function rowbus_spark.copy_statement(i_target regclass, i_names text[], i_types text[])
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select
        case
            when bool_and(
                c.type_there = given.type_name::regtype
                or (given.type_name::regtype = 'text'::regtype and c.type_there = 'varchar'::regtype)
            )
            then format(
                'copy %s (%s) from stdin (format binary)',
                i_target, string_agg(quote_ident(c.name_there), ', ' order by given.position)
            )
        end
    from unnest(i_names, i_types) with ordinality as given (name_given, type_name, position)
    join pg_catalog.pg_class as t on t.oid = i_target
    left join rowbus_spark.target_columns(i_target, i_names) as c on c.name_given = given.name_given
    where t.relkind in ('r', 'p') and not t.relhasrules and not t.relrowsecurity
$$;

-- Write the INSERT that appends the rows of a stage to a table, each column converted to its type there.
-- Locks nothing; returns the statement.
create or replace function rowbus_spark.insert_statement(
    i_stage text, i_target regclass, i_names text[], i_types text[]
)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select format(
        'insert into %s (%s) select %s from rowbus_spark.%I as s',
        i_target,
        string_agg(quote_ident(c.name_there), ', ' order by given.position),
        string_agg(
            rowbus_spark.converted(format('s.c%s', given.position), given.type_name::regtype, c.type_there),
            ', ' order by given.position
        ),
        i_stage
    )
    from unnest(i_names, i_types) with ordinality as given (name_given, type_name, position)
    inner join rowbus_spark.target_columns(i_target, i_names) as c on given.name_given = c.name_given
$$;

-- Append the rows of a stage to a table. Locks nothing but the rows it writes; returns how many it wrote.
create or replace function rowbus_spark.append_stage(
    i_stage text, i_target regclass, i_names text[], i_types text[]
)
returns bigint
language plpgsql
as $$
declare
    v_count bigint;
begin
    execute rowbus_spark.insert_statement(i_stage, i_target, i_names, i_types);
    get diagnostics v_count = row_count;
    return v_count;
end;
$$;

-- Empty a table that is to hold nothing but a batch. Not TRUNCATE: readers are to see the old rows until the commit.
-- Deletes and locks all rows; returns how many.
create or replace function rowbus_spark.clear_table(i_target regclass)
returns bigint
language plpgsql
as $$
declare
    v_count bigint;
begin
    execute pg_catalog.format('delete from %s', i_target);
    get diagnostics v_count = row_count;
    return v_count;
end;
$$;
