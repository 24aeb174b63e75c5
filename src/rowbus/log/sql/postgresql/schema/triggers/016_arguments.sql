-- Says whether a trigger has the argument that captures of ours have and PgQ does not: its events tell of every change,
-- a changed key is a DELETE and an INSERT, and what is written does not depend on the session that writes. i_args: from
-- 0, where the queue is. Locks nothing.
create or replace function pgq.is_exact(i_args text[])
returns boolean
language sql immutable
return 'exact' = any(i_args[1:]);

-- Masks of columns: the arguments mask=column:hash, mask=column:null and mask=column:truncate:n of a trigger. What is
-- written, and what a first copy reads, is the masked text. None of these functions locks anything.

-- Returns how a column is masked; NULL when it is not.
create or replace function pgq.column_mask(i_args text[], i_column text)
returns text
language sql immutable
return (
    select pg_catalog.max(pg_catalog.substr(a.value, pg_catalog.length(i_column) + 7))
    from unnest(i_args) as a (value)
    where pg_catalog.starts_with(a.value, 'mask=' || i_column || ':')
);

-- Returns a text under a mask.
create or replace function pgq.masked(i_text text, i_mask text)
returns text
language sql stable
return case
    when i_mask is null then i_text
    when i_mask = 'hash' then
        pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(i_text, 'UTF8')), 'hex')
    when i_mask like 'truncate:%' then pg_catalog.left(i_text, pg_catalog.substr(i_mask, 10)::int4)
end;

-- Returns the masks of columns; NULL when none has one.
create or replace function pgq.column_masks(i_args text[], i_names text[])
returns text[]
language sql immutable
return (
    select pg_catalog.array_agg(pgq.column_mask(i_args, n.name) order by n.place)
    from unnest(i_names) with ordinality as n (name, place)
    having pg_catalog.count(pgq.column_mask(i_args, n.name)) > 0
);

-- Returns the texts of a row's columns under their masks.
create or replace function pgq.masked_texts(i_texts text[], i_masks text[])
returns text[]
language sql stable
return case
    when i_masks is null then i_texts
    else (
        select pg_catalog.array_agg(pgq.masked(t.value, t.mask) order by t.place)
        from unnest(i_texts, i_masks) with ordinality as t (value, mask, place)
    )
end;

-- Raises what is wrong with the masks among the arguments of a capture: SQLSTATE 22023, or 42703 for a column that the
-- table does not have.
create or replace function pgq.check_masks(i_table regclass, i_args text[], i_key text[])
returns void
language plpgsql stable
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_mask record;
    v_column record;
begin
    for v_mask in
        select a.value, m.found[1] as column_name, m.found[2] as rule
        from unnest(i_args) as a (value)
        left join lateral regexp_match(a.value, '^mask=(.*):(hash|null|truncate:[0-9]{1,9})$') as m (found) on true
        where a.value like 'mask=%'
    loop
        if v_mask.rule is null then
            raise exception using
                errcode = '22023', message = format('capture_table: %s is no mask', v_mask.value),
                hint = 'Use mask=column:hash, mask=column:null or mask=column:truncate:n.';
        end if;
        select t.typcategory, a.atttypmod into v_column
        from pg_attribute as a
        join pg_type as t on a.atttypid = t.oid
        where a.attrelid = i_table and a.attname = v_mask.column_name and a.attnum > 0 and not a.attisdropped;
        if not found then
            raise exception using
                errcode = '42703', message = format(
                    'capture_table: %s has no column %s (mask=), but %s', i_table, v_mask.column_name,
                    array_to_string(table_columns(i_table), ', ')
                );
        elsif v_mask.rule <> 'null' and v_column.typcategory <> 'S' or v_mask.rule = 'hash' and v_column.atttypmod between 1 and 67 then
            raise exception using
                errcode = '22023', message = format(
                    'capture_table: column %s of %s cannot hold a mask %s', v_mask.column_name, i_table, v_mask.rule
                ), hint = 'A hash is a text of 64 characters, and truncate is for texts; null is for all types.';
        elsif v_mask.rule <> 'hash' and v_mask.column_name = any(i_key) then
            raise exception using
                errcode = '22023', message = format(
                    'capture_table: column %s is of the key of %s, which needs its values', v_mask.column_name, i_table
                ), hint = 'Mask it by a hash, or name another key with pkey=.';
        end if;
    end loop;
end
$$;
