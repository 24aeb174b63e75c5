-- Reads the arguments of a trigger that follow the queue's name, in their order; the last of ignore= and of pkey=
-- counts, and the first of an expression. What Rowbus adds has no option: see is_exact, tells_cause, named_table,
-- exact_key and column_mask. "bad" is the place of the first that is none. o_expressions: of ev_type, ev_data, ev_extra1 ... ev_extra4 and when. Locks nothing.
create or replace function pgq.trigger_options(
    i_args text[],
    out o_skip boolean,
    out o_backup boolean,
    out o_deny boolean,
    out o_ignored text,
    out o_key text,
    out o_expressions text[],
    out o_bad int4
)
language plpgsql immutable as $$
declare
    v_fields pg_catalog.text[] := '{ev_type,ev_data,ev_extra1,ev_extra2,ev_extra3,ev_extra4,when}';
    v_place integer;
    v_value pg_catalog.text;
begin
    for i in 1 .. coalesce(pg_catalog.array_upper(i_args, 1), 0) loop
        v_value := pg_catalog.substr(i_args[i], pg_catalog.strpos(i_args[i], '=') operator(pg_catalog.+) 1);
        v_place := pg_catalog.array_position(v_fields, pg_catalog.split_part(i_args[i], '=', 1));
        case
            when i_args[i] operator(pg_catalog.=) 'SKIP' then o_skip := true;
            when i_args[i] operator(pg_catalog.=) any('{exact,cause,as-root,whole-row}') then null;
            when i_args[i] operator(pg_catalog.=) 'backup' then o_backup := true;
            when i_args[i] operator(pg_catalog.=) 'deny' then o_deny := true;
            when i_args[i] operator(pg_catalog.~~) 'ignore=%' then o_ignored := v_value;
            when i_args[i] operator(pg_catalog.~~) 'mask=%' then null;
            when i_args[i] operator(pg_catalog.~~) 'pkey=%' then o_key := v_value;
            when v_place is not null and pg_catalog.strpos(i_args[i], '=') operator(pg_catalog.>) 0 then
                o_expressions := coalesce(o_expressions, pg_catalog.array_fill(null::pg_catalog.text, '{7}'));
                o_expressions[v_place] := coalesce(o_expressions[v_place], v_value);
            else
                o_bad := i;
                exit;
        end case;
    end loop;
end
$$;

-- Returns the key that an exact capture goes by: the primary key or, with whole-row where there is none, all columns but
-- those that the database computes and those that are ignored. Locks nothing.
create or replace function pgq.exact_key(i_table regclass, i_args text[])
returns text
language plpgsql stable
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_ignored text[] := listed_columns((trigger_options(i_args)).o_ignored, table_columns(i_table));
begin
    return coalesce(table_key(i_table), case when 'whole-row' = any(i_args) then (
        select string_agg(a.attname, ',' order by a.attnum)
        from pg_attribute as a
        where
            a.attrelid = i_table and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
            and a.attname <> all(coalesce(v_ignored, '{}'))
    ) end);
end
$$;
