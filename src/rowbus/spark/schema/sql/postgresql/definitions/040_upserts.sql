-- Remember, for each table that is merged into by sequence, the newest sequence of each key, also of keys that were
-- deleted (tombstones). They are in tables of their own, `upsert_1`, …, with the keys' types; `upsert_target` says whose.
-- Locks what is created; returns nothing.
create table if not exists rowbus_spark.upsert_target (
    target_id int4 generated always as identity,
    target regclass not null,
    keys text[] not null,
    constraint upsert_target_pkey primary key (target_id),
    constraint upsert_target_key unique (target, keys)
);

-- Find the table of sequences for a target and its keys, or make it. Its names with a space cannot be a key's by accident.
-- Waits for others who make it; returns its name, quoted.
create or replace function rowbus_spark.sequence_table(i_target regclass, i_keys text[], i_type regtype)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_id int4;
    v_table text;
begin
    select t.target_id into v_id
    from rowbus_spark.upsert_target as t
    where t.target = i_target and t.keys = i_keys;
    if v_id is null then
        insert into rowbus_spark.upsert_target (target, keys)
        values (i_target, i_keys)
        returning target_id into v_id;
    end if;
    v_table := format('rowbus_spark.%I', 'upsert_' || v_id);
    if to_regclass(v_table) is null then
        execute format(
            'create table %s (%s, "its sequence" %s not null, "is deleted" boolean not null, primary key (%s))',
            v_table,
            (
                select string_agg(format('%I %s', c.name_there, rowbus_spark.type_name(c.type_there)), ', ')
                from rowbus_spark.target_columns(i_target, i_keys) as c
            ),
            rowbus_spark.type_name(i_type),
            (select string_agg(quote_ident(k), ', ') from unnest(i_keys) as k)
        );
    end if;
    return v_table;
end;
$$;

-- Write the query that reads one stage under the names and types of the target's columns, with "its sequence" and
-- "is deleted" added. Locks nothing; returns its text.
create or replace function rowbus_spark.stage_query(
    i_stage text, i_target regclass, i_names text[], i_types text[],
    i_sequence text, i_delete text, i_delete_values text[]
)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select
        format(
            'select %s, %s as "its sequence", %s as "is deleted" from rowbus_spark.%I as s',
            string_agg(
                format(
                    '%s as %I',
                    rowbus_spark.converted(
                        format('s.c%s', given.position), given.type_name::regtype, c.type_there
                    ),
                    c.name_there
                ),
                ', ' order by given.position
            ) filter (where c.name_there is not null),
            coalesce(max(format('s.c%s', given.position)) filter (where given.name_given = i_sequence), 'null'),
            coalesce(
                max(
                    case
                        when i_delete_values is null
                            then format('coalesce(s.c%s::boolean, false)', given.position)
                        else format(
                            'coalesce(s.c%s::pg_catalog.text operator(pg_catalog.=) any(%L::pg_catalog.text[]), false)', given.position, i_delete_values
                        )
                    end
                ) filter (where given.name_given = i_delete),
                'false'
            ),
            i_stage
        )
    from unnest(i_names, i_types) with ordinality as given (name_given, type_name, position)
    left join rowbus_spark.target_columns(i_target, i_names) as c on c.name_given = given.name_given
$$;

-- Refuse rows of a merge without a sequence that have no key, or the same: nothing says which of them is the last.
-- Locks nothing; returns nothing, or raises.
create or replace function rowbus_spark.require_distinct_keys(i_rows text, i_keys text[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key text;
begin
    execute format(
        'select concat_ws('', '', %1$s) from (%2$s) as r group by %1$s having count(*) > 1 or num_nulls(%1$s) > 0 limit 1',
        (select string_agg(quote_ident(k), ', ') from unnest(i_keys) as k), i_rows
    ) into v_key;
    if v_key is not null then
        raise exception using
            errcode = '21000',
            message = format('the batch has several rows with the key (%s), or one without a key', v_key),
            hint = 'Give the option sequenceBy: the column that says which of them is the newest.';
    end if;
end;
$$;

-- Write the query that takes the newest row of each key, "latest", into the table of sequences, and gives the keys that win:
-- those of which nothing newer is known, all where there is no sequence. Waits for others who make that table.
create or replace function rowbus_spark.winners_query(i_target regclass, i_keys text[], i_type regtype)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if i_type is null then
        return 'select * from latest';
    end if;
    return format(
        'insert into %1$s as known (%2$s, "its sequence", "is deleted") '
        'select %2$s, "its sequence", "is deleted" from latest '
        'on conflict (%2$s) do update set "its sequence" = excluded."its sequence", '
        '"is deleted" = excluded."is deleted" '
        'where known."its sequence" operator(pg_catalog.<=) excluded."its sequence" '
        'returning %2$s',
        rowbus_spark.sequence_table(i_target, i_keys, i_type),
        (select string_agg(quote_ident(k), ', ') from unnest(i_keys) as k)
    );
end;
$$;

-- Write the statement of a merge (see merge_stages); refuses a batch without a sequence that has a key twice.
-- Waits for others who make the table of sequences; returns the statement.
create or replace function rowbus_spark.merge_statement(
    i_stages text[], i_target regclass, i_names text[], i_types text[], i_keys text[],
    i_sequence text, i_delete text, i_delete_values text[]
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_rows text;
    v_columns text[];
    v_keys text;
    v_join text;
begin
    select
        string_agg(
            rowbus_spark.stage_query(
                stage.name, i_target, i_names, i_types, i_sequence, i_delete, i_delete_values
            ),
            ' union all '
        )
    into v_rows
    from unnest(i_stages) as stage (name);
    select array_agg(c.name_there) filter (where c.name_there is not null) into v_columns
    from rowbus_spark.target_columns(i_target, i_names) as c;
    select
        string_agg(quote_ident(k.key), ', ' order by k.place),
        string_agg(format('t.%1$I %2$s l.%1$I', k.key, rowbus_spark.equality(c.type_there)), ' and ' order by k.place)
    into v_keys, v_join
    from unnest(i_keys) with ordinality as k (key, place)
    left join rowbus_spark.target_columns(i_target, i_keys) as c on k.key = c.name_given;
    if i_sequence is null then
        perform rowbus_spark.require_distinct_keys(v_rows, i_keys);
    end if;
    return format(
        'with latest as materialized ('
        'select distinct on (%1$s) r.* from (%2$s) as r order by %1$s, r."its sequence" desc nulls last), '
        'winners as (%3$s), '
        'newest as materialized (select l.* from latest as l join winners as t on %4$s), '
        'gone as (delete from %5$s as t using newest as l where %4$s and l."is deleted"), '
        'there as (insert into %5$s (%6$s) select %6$s from newest where not "is deleted" on conflict (%1$s) do %7$s) '
        'select pg_catalog.count(*) from newest',
        v_keys, v_rows,
        rowbus_spark.winners_query(i_target, i_keys, i_types[array_position(i_names, i_sequence)]::regtype),
        v_join, i_target,
        (select string_agg(quote_ident(c), ', ') from unnest(v_columns) as c),
        coalesce(
            'update set ' || (
                select string_agg(format('%1$I = excluded.%1$I', c), ', ')
                from unnest(v_columns) as c
                where c <> all(i_keys)
            ),
            'nothing'
        )
    );
end;
$$;

-- Merge stages into a table: of each key the row with the highest sequence counts (of equal ones, any), and changes
-- nothing if it is older than what is known of the key, be it deleted. `i_sequence` (may be null) and `i_delete` (may be
-- null) are columns of the stages; a row deletes if the latter is true, or one of `i_delete_values`.
-- The target needs a unique index on the keys. Locks the rows it changes; returns how many keys it changed.
create or replace function rowbus_spark.merge_stages(
    i_stages text[], i_target regclass, i_names text[], i_types text[], i_keys text[],
    i_sequence text, i_delete text, i_delete_values text[]
)
returns bigint
language plpgsql
as $$
declare
    v_changed bigint;
begin
    execute rowbus_spark.merge_statement(
        i_stages, i_target, i_names, i_types, i_keys, i_sequence, i_delete, i_delete_values
    ) into v_changed;
    return v_changed;
end;
$$;
