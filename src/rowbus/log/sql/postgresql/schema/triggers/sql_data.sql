-- Returns "name='value' and ..." for the key columns of a row, in the order of the table, as sqltriga writes them; raises
-- an error when one of them is NULL. Locks nothing.
create or replace function pgq.sql_key(i_names text[], i_texts text[], i_key text[])
returns text
language plpgsql stable as $$
declare
    v_key pg_catalog.text;
    v_missing boolean;
begin
    select
        pg_catalog.string_agg(
            pg_catalog.quote_ident(c.name) operator(pg_catalog.||) '=' operator(pg_catalog.||) pg_catalog.quote_literal(c.value),
            ' and ' order by c.place
        ),
        pg_catalog.bool_or(c.value is null)
    into v_key, v_missing
    from rows from (pg_catalog.unnest(i_names), pg_catalog.unnest(i_texts)) with ordinality as c (name, value, place)
    where c.name operator(pg_catalog.=) any(i_key);
    if v_missing then
        raise exception using errcode = 'XX000', message = 'logtriga: Unexpected NULL key value';
    end if;
    return coalesce(v_key, '');
end
$$;

-- Returns "(names) values (values)", as sqltriga writes a new row. Locks nothing.
create or replace function pgq.sql_insert(i_names text[], i_texts text[], i_kinds text[], i_ignored text[])
returns text
language sql stable
return (
    select pg_catalog.concat(
        '(', pg_catalog.string_agg(pg_catalog.quote_ident(c.name), ',' order by c.place), ') values (',
        pg_catalog.string_agg(coalesce(pg_catalog.quote_literal(c.value), 'null'), ',' order by c.place), ')'
    )
    from unnest(i_names, i_texts, i_kinds) with ordinality as c (name, value, kind, place)
    where c.name is not null and c.kind not like 'm%' and c.name <> all(coalesce(i_ignored, '{}'))
);

-- Returns the changed columns and the key as sqltriga writes an update; NULL when only columns that are no data have
-- changed. An update that changes nothing names its first key column. Locks nothing.
create or replace function pgq.sql_update(
    i_names text[], i_old text[], i_new text[], i_kinds text[], i_changed text[], i_ignored text[],
    i_key text[]
)
returns text
language plpgsql stable as $$
declare
    v_set pg_catalog.text;
    v_same pg_catalog.text;
begin
    select pg_catalog.string_agg(
        pg_catalog.concat(pg_catalog.quote_ident(c.name), '=', coalesce(pg_catalog.quote_literal(c.value), 'NULL')), ','
        order by c.place
    )
    into v_set
    from
        rows from (pg_catalog.unnest(i_names), pg_catalog.unnest(i_new), pg_catalog.unnest(i_kinds)) with ordinality
            as c (name, value, kind, place)
    where c.name operator(pg_catalog.=) any(i_changed)
        and c.kind operator(pg_catalog.!~~) 'm%'
        and c.name operator(pg_catalog.<>) all(coalesce(i_ignored, '{}'));
    if v_set is null then
        if pg_catalog.cardinality(i_changed) operator(pg_catalog.>) 0 then
            return null;
        end if;
        select pg_catalog.quote_ident(c.name) operator(pg_catalog.||) '=' operator(pg_catalog.||) pg_catalog.quote_literal(c.value)
        into v_same
        from rows from (pg_catalog.unnest(i_names), pg_catalog.unnest(i_old)) with ordinality as c (name, value, place)
        where c.name operator(pg_catalog.=) any(i_key)
        order by c.place
        limit 1;
        if v_same is null then
            raise exception using errcode = 'XX000', message = 'logtriga: Unexpected NULL key value';
        end if;
        v_set := v_same;
    end if;
    return v_set operator(pg_catalog.||) ' where ' operator(pg_catalog.||) pgq.sql_key(i_names, i_old, i_key);
end
$$;

-- Returns a change as sqltriga writes it; NULL for an update of columns that are no data. Locks nothing.
create or replace function pgq.sql_data(
    i_op text, i_names text[], i_kinds text[], i_new text[], i_old text[], i_changed text[], i_ignored text[],
    i_key text[]
)
returns text
language plpgsql stable as $$
begin
    return case
        when i_op operator(pg_catalog.=) 'INSERT' then pgq.sql_insert(i_names, i_new, i_kinds, i_ignored)
        when i_op operator(pg_catalog.=) 'UPDATE' then pgq.sql_update(i_names, i_old, i_new, i_kinds, i_changed, i_ignored, i_key)
        else pgq.sql_key(i_names, i_old, i_key)
    end;
end
$$;
