-- Make the table of a replica, or empty the one that is there, and note that it is filled from this snapshot.
-- i_types: as format_type spells them, with their schema. Locks the table until the end of the transaction.
-- Returns the COPY statement that fills it. Raises 42P16 when a table of that name has other columns or another key, or is
-- another replica's.
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
    v_had text[];
    v_other text;
begin
    if to_regclass(v_target) is null then
        perform rowbus_spark.create_replica_table(v_target, i_schema, i_columns, i_types, i_required, i_key);
    else
        select array_agg(c.name) into v_had
        from rowbus_spark.replica_table as t
        cross join unnest(t.column_names) as c (name)
        where t.replica = i_replica and t.target = v_target;
        select t.replica into v_other from rowbus_spark.replica_table as t
        where t.target = v_target and t.replica <> i_replica limit 1;
        if v_other is not null then
            raise exception using
                errcode = '42P16',
                message = format(
                    'table %s is the copy that replica %s keeps: name another schema. If that replica is no more, drop its tables',
                    v_target, v_other
                );
        end if;
        set constraints all deferred;
        if v_had is not null then
            perform rowbus_spark.empty_table(v_target);
            perform rowbus_spark.reshape_replica_table(v_target, v_had, i_columns, i_types, i_required, i_key);
        end if;
        perform rowbus_spark.check_replica_table(v_target, i_source, i_columns, i_key);
        perform rowbus_spark.empty_table(v_target);
    end if;
    insert into rowbus_spark.replica_table (replica, source_table, target, column_names, type_names, key_columns, copied_in)
    values (i_replica, i_source, v_target, i_columns, i_types, i_key, i_snapshot)
    on conflict (replica, source_table) do update set
        target = excluded.target, column_names = excluded.column_names, type_names = excluded.type_names,
        key_columns = excluded.key_columns, copied_in = excluded.copied_in, copied_at = now(), fault = null;
    return format(
        'copy %s (%s) from stdin', v_target,
        (select string_agg(quote_ident(c.name), ', ' order by c.place) from unnest(i_columns) with ordinality as c (name, place))
    );
end
$$;

-- Empty a table, also one that foreign keys refer to. Locks it, or its rows; returns nothing.
create or replace function rowbus_spark.empty_table(i_target text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    execute format(
        case when exists (
            select
            from pg_catalog.pg_constraint as c
            where c.confrelid = i_target::regclass and c.contype = 'f' and c.conrelid <> c.confrelid
        ) then 'delete from %s' else 'truncate %s' end,
        i_target
    );
end
$$;

-- Empty tables that refer to each other, at once; where others refer to them, too, they are left as they are. Locks them;
-- returns nothing.
create or replace function rowbus_spark.empty_tables(i_targets text[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    execute (select concat('truncate ', string_agg(t.name, ', ')) from unnest(i_targets) as t (name));
exception when feature_not_supported then
    return;
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

-- Give the empty table of a replica the columns and types that its source has now, in place of those it had (i_had); what
-- people have added stays, and so does a column that is gone, empty, where a view of theirs or the like needs it. Locks the table; returns nothing.
-- Raises 42P16, with its name, for what of theirs keeps a column from changing its type, or the key from changing.
create or replace function rowbus_spark.reshape_replica_table(
    i_target text, i_had text[], i_columns text[], i_types text[], i_required text[], i_key text[]
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_change text;
    v_otherwise text;
begin
    for v_change, v_otherwise in
        select format('drop constraint %I', c.conname), null
        from pg_catalog.pg_constraint as c
        where c.conrelid = i_target::regclass and c.contype = 'p' and not rowbus_spark.has_key(i_target, i_key)
        union all
        select format('drop column %I', a.attname), format('alter column %I drop not null', a.attname)
        from pg_catalog.pg_attribute as a
        where
            a.attrelid = i_target::regclass and a.attnum > 0 and not a.attisdropped
            and a.attname = any(i_had) and a.attname <> all(i_columns)
        union all
        select case
            when a.attname is null then format('add column %I %s', c.name, c.type_name)
            else format('alter column %I type %s using null', c.name, c.type_name)
        end, null
        from unnest(i_columns, i_types) as c (name, type_name)
        left join pg_catalog.pg_attribute as a
            on c.name = a.attname and a.attrelid = i_target::regclass and a.attnum > 0 and not a.attisdropped
        where a.attname is null or format_type(a.atttypid, a.atttypmod) <> c.type_name
        union all
        select format(
            'alter column %I %s not null', c.name, case when c.name = any(i_required) then 'set' else 'drop' end
        ), null
        from unnest(i_columns) as c (name)
        where c.name <> all(i_key)
    loop
        perform rowbus_spark.alter_replica_table(i_target, v_change, v_otherwise);
    end loop;
    if i_key <> '{}' and not rowbus_spark.has_key(i_target, i_key) then
        execute format(
            'alter table %s add primary key (%s)', i_target,
            (select string_agg(quote_ident(k.name), ', ' order by k.place) from unnest(i_key) with ordinality as k (name, place))
        );
    end if;
end
$$;

-- Alter a table of a replica; otherwise, where something else needs what is to change, in another way. Locks the table;
-- returns nothing. Raises 42P16, which names what is in the way, where there is no other way.
create or replace function rowbus_spark.alter_replica_table(i_target text, i_change text, i_otherwise text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_needs text;
begin
    execute format('alter table %s %s', i_target, i_change);
exception when dependent_objects_still_exist or feature_not_supported or object_in_use then
    get stacked diagnostics v_needs = pg_exception_detail;
    if i_otherwise is null then
        raise exception using
            errcode = '42P16',
            message = format(
                'the copy %s has to follow its source by "%s", but %s (%s). Drop that, and make it again afterwards',
                i_target, i_change, sqlerrm, v_needs
            );
    end if;
    execute format('alter table %s %s', i_target, i_otherwise);
end
$$;

-- Raise what speaks against filling a table that is there: columns that it lacks, others that need a value, no unique key.
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
    v_needed text[];
begin
    select
        array_agg(a.attname::text),
        array_agg(a.attname::text) filter (where a.attnotnull and not a.atthasdef and a.attidentity = '')
    into v_there, v_needed
    from pg_catalog.pg_attribute as a
    where a.attrelid = i_target::regclass and a.attnum > 0 and not a.attisdropped;
    if not (v_there @> i_columns and coalesce(v_needed, '{}') <@ i_columns) then
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
