-- Make the table of a replica, or empty the one that is there, and note that it is filled from this snapshot.
-- i_types: as format_type spells them, with their schema. Locks the table until the end of the transaction.
-- Returns the COPY statement that fills it. Raises 42P16 when a table of that name has other columns or another key.
create or replace function rowbus_spark.prepare_replica_table(
    i_replica text, i_source text, i_schema text, i_table text,
    i_columns text[], i_types text[], i_required text[], i_key text[], i_snapshot text
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_target text := format('%I.%I', i_schema, i_table);
begin
    if to_regclass(v_target) is null then
        perform rowbus_spark.create_replica_table(v_target, i_schema, i_columns, i_types, i_required, i_key);
    else
        if exists (
            select from rowbus_spark.replica_table as t where t.replica = i_replica and t.target = v_target
        ) then
            execute format('truncate %s', v_target);
            perform rowbus_spark.reshape_replica_table(v_target, i_columns, i_types, i_required, i_key);
        end if;
        perform rowbus_spark.check_replica_table(v_target, i_source, i_columns, i_key);
        execute format('truncate %s', v_target);
    end if;
    insert into rowbus_spark.replica_table (replica, source_table, target, column_names, type_names, key_columns, copied_in)
    values (i_replica, i_source, v_target, i_columns, i_types, i_key, i_snapshot)
    on conflict (replica, source_table) do update set
        target = excluded.target, column_names = excluded.column_names, type_names = excluded.type_names,
        key_columns = excluded.key_columns, copied_in = excluded.copied_in, copied_at = now();
    return format(
        'copy %s (%s) from stdin', v_target,
        (select string_agg(quote_ident(c.name), ', ' order by c.place) from unnest(i_columns) with ordinality as c (name, place))
    );
end
$$;

-- Create it: columns and primary key, nothing else, for nothing else is known to be wanted. Returns nothing.
create or replace function rowbus_spark.create_replica_table(
    i_target text, i_schema text, i_columns text[], i_types text[], i_required text[], i_key text[]
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('create schema if not exists %I', i_schema);
    execute format(
        'create table %s (%s%s)', i_target,
        (
            select string_agg(
                format('%I %s%s', c.name, c.type_name, case when c.name = any(i_required) then ' not null' end), ', '
                order by c.place
            )
            from unnest(i_columns, i_types) with ordinality as c (name, type_name, place)
        ),
        (
            select format(', primary key (%s)', string_agg(quote_ident(k.name), ', ' order by k.place))
            from unnest(i_key) with ordinality as k (name, place)
            having count(*) > 0
        )
    );
end
$$;

-- Give the empty table of a replica the columns and types that its source has now; what people have added stays, but for
-- what needs a column that is gone. Locks the table; returns nothing.
create or replace function rowbus_spark.reshape_replica_table(
    i_target text, i_columns text[], i_types text[], i_required text[], i_key text[]
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_change text;
begin
    for v_change in
        select format('drop constraint %I', c.conname)
        from pg_catalog.pg_constraint as c
        where c.conrelid = i_target::regclass and c.contype = 'p' and not rowbus_spark.has_key(i_target, i_key)
        union all
        select format('drop column %I', a.attname)
        from pg_catalog.pg_attribute as a
        where a.attrelid = i_target::regclass and a.attnum > 0 and not a.attisdropped and a.attname <> all(i_columns)
        union all
        select case
            when a.attname is null then format('add column %I %s', c.name, c.type_name)
            else format('alter column %I type %s using null', c.name, c.type_name)
        end
        from unnest(i_columns, i_types) as c (name, type_name)
        left join pg_catalog.pg_attribute as a
            on c.name = a.attname and a.attrelid = i_target::regclass and a.attnum > 0 and not a.attisdropped
        where a.attname is null or format_type(a.atttypid, a.atttypmod) <> c.type_name
        union all
        select format(
            'alter column %I %s not null', c.name, case when c.name = any(i_required) then 'set' else 'drop' end
        )
        from unnest(i_columns) as c (name)
        where c.name <> all(i_key)
    loop
        execute format('alter table %s %s', i_target, v_change);
    end loop;
    if i_key <> '{}' and not rowbus_spark.has_key(i_target, i_key) then
        execute format(
            'alter table %s add primary key (%s)', i_target,
            (select string_agg(quote_ident(k.name), ', ' order by k.place) from unnest(i_key) with ordinality as k (name, place))
        );
    end if;
end
$$;

-- Raise what speaks against filling a table that is there: columns that it lacks or has too many of, no unique key.
-- Locks nothing; returns nothing.
create or replace function rowbus_spark.check_replica_table(
    i_target text, i_source text, i_columns text[], i_key text[]
)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_there text[];
begin
    select array_agg(a.attname::text) into v_there
    from pg_catalog.pg_attribute as a
    where a.attrelid = i_target::regclass and a.attnum > 0 and not a.attisdropped;
    if not (v_there @> i_columns and v_there <@ i_columns) then
        raise exception using
            errcode = '42P16',
            message = format(
                'table %s is there with other columns than %s: it has %s, to be replicated are %s. Drop it, so that it is '
                || 'made anew, or alter it, and copy again', i_target, i_source,
                array_to_string(v_there, ', '), array_to_string(i_columns, ', ')
            );
    elsif i_key <> '{}' and not rowbus_spark.has_key(i_target, i_key) then
        raise exception using
            errcode = '42P16',
            message = format(
                'table %s has no unique index on (%s), the key of %s; create it, or drop the table so that it is made anew',
                i_target, array_to_string(i_key, ', '), i_source
            );
    end if;
end
$$;

-- Say whether a unique index of a table is on exactly these columns, so that `on conflict` finds it. Locks nothing.
create or replace function rowbus_spark.has_key(i_target text, i_key text[])
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select exists (
        select
        from pg_catalog.pg_index as i
        cross join lateral (
            select array_agg(a.attname::text) as names
            from pg_catalog.pg_attribute as a
            where a.attrelid = i.indrelid and a.attnum = any(i.indkey)
        ) as k
        where
            i.indrelid = i_target::regclass and i.indisunique and i.indimmediate and i.indpred is null
            and i.indexprs is null and k.names @> i_key and k.names <@ i_key and i.indnkeyatts = cardinality(i_key)
    )
$$;
