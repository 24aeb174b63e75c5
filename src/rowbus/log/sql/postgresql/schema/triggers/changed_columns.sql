-- Returns the columns that differ between two versions of a row, in the order of the table: by the equality operator
-- of their type, else by their text forms. With i_only, looks at no other columns. Locks nothing.
create or replace function pgq.changed_columns(
    i_new anyelement, i_old anyelement, i_names text[], i_kinds text[], i_only text[] default null
)
returns text[]
language plpgsql stable as $$
declare
    v_news pg_catalog.text[] := pgq.row_texts(i_new);
    v_olds pg_catalog.text[] := pgq.row_texts(i_old);
    v_changed pg_catalog.text[] := '{}';
    v_differs boolean;
begin
    for i in 1 .. pg_catalog.cardinality(i_names) loop
        if i_only is not null and i_names[i] operator(pg_catalog.<>) all(i_only) then
            continue;
        end if;
        v_differs := coalesce(
            v_news[i] operator(pg_catalog.<>) v_olds[i], pg_catalog.num_nulls(v_news[i], v_olds[i]) operator(pg_catalog.=) 1
        );
        if i_kinds[i] operator(pg_catalog.~~) '%f' or (
            v_differs and i_kinds[i] operator(pg_catalog.~~) '%o' and v_news[i] is not null and v_olds[i] is not null
        ) then
            v_differs := pgq.column_differs(i_names[i], i_new, i_old);
        end if;
        if v_differs then
            v_changed := v_changed operator(pg_catalog.||) i_names[i];
        end if;
    end loop;
    return v_changed;
end
$$;

-- Says whether a column differs by the equality operator of its type; true when that type (a composite one) has none.
-- Locks nothing.
create or replace function pgq.column_differs(i_name text, i_new anyelement, i_old anyelement)
returns boolean
language plpgsql stable as $$
declare
    v_differs boolean;
begin
    execute pg_catalog.format('select not pg_catalog.record_eq(row(($1).%1$I), row(($2).%1$I))', i_name)
    into v_differs using i_new, i_old;
    return v_differs;
exception
    when undefined_function then
        return true;
end
$$;
