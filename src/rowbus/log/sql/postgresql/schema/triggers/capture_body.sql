-- Returns the body of the function that makes a trigger's events in the happy cases, as row_event would; it leaves
-- all other cases to row_event by returning NULL. i_new is the row of a DELETE. NULL when there is nothing to gain:
-- magic columns, expressions, SKIP, deny and arguments that PgQ refuses. Locks nothing.
-- Invariant: mentions the table as a regclass, in a branch that is never taken but that the planner cannot rule out, so
-- that plans notice its changes. The operation and the format are constants where it is called: one branch is left of
-- it.
create or replace function pgq.capture_body(i_table regclass, i_format text, i_args text[])
returns text
language plpgsql stable
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_options record := pgq.trigger_options(i_args);
    v_columns text[];
    v_table text[] := pgq.event_table(i_table, i_args);
    v_exact boolean := pgq.is_exact(i_args);
    v_list text := coalesce(v_options.o_key, case when v_exact then pgq.exact_key(i_table, i_args) else pgq.index_key(i_table) end);
    v_key text[];
    v_ignored text[];
    v_event text := pg_catalog.format(
        'array[%%L, %%s, %%L, %%s, null, %s]', case when pgq.tells_cause(i_args) then 'pgq.current_cause()' else 'null' end
    );
    v_name text;
    v_update text;
    v_key_code text;
    v_set text;
begin
    select pg_catalog.array_agg(a.attname::text) into v_columns
    from pg_catalog.pg_attribute as a
    where a.attrelid = i_table and a.attnum > 0 and not a.attisdropped;
    if v_options.o_bad is not null or v_options.o_expressions is not null or v_options.o_skip or v_options.o_deny
        or pg_catalog.array_to_string(v_columns, ',') ~ '_pgq_ev_' or v_columns is null
    then
        return null;
    end if;
    v_name := v_table[1] || '.' || v_table[2];
    v_key := coalesce(
        case when v_exact then pgq.key_columns(v_options.o_key, v_list, v_columns) else pgq.listed_columns(v_list, v_columns) end, '{}'
    );
    v_ignored := case
        when v_options.o_ignored is not null then coalesce(pgq.listed_columns(v_options.o_ignored, v_columns), '{}')
    end;
    if v_exact and i_format = 'sql' then
        v_ignored := coalesce(v_ignored, '{}') || coalesce(pgq.generated_columns(i_table), '{}');
    end if;
    v_key_code := pgq.key_code(i_table, v_key, i_args);
    v_update := pgq.update_code(i_table, i_format, v_key, v_ignored, v_exact);
    v_set := pgq.set_code(i_table, v_ignored, i_args);
    return pg_catalog.format(
        e'select case when i_args is null then array[pgq.row_table(case when false then i_new end)::pg_catalog.text, '
        || e'''%s''::pg_catalog.regclass::pg_catalog.text]\n%s'
        || e'when i_op operator(pg_catalog.=) ''INSERT'' then %s\n'
        || e'when i_op operator(pg_catalog.=) ''UPDATE'' then case when %s then %s end\n'
        || e'when %s then %s end',
        pgq.named_table(i_table, i_args)::oid,
        case when v_exact then e'when not (' || pgq.settings_code(i_table, i_format) || e') then null\n' end,
        pg_catalog.format(
            v_event, pgq.event_type(i_format, 'INSERT', v_table, v_list),
            pgq.data_code(i_table, i_format, 'i_new', v_ignored, i_args), v_name, 'null'
        ),
        case when i_format = 'sql' and v_set is null then 'false' else coalesce(v_update, 'false') end,
        pg_catalog.format(
            v_event, pgq.event_type(i_format, 'UPDATE', v_table, v_list),
            case i_format
                when 'sql' then coalesce(
                    v_set || ' operator(pg_catalog.||) '' where '' operator(pg_catalog.||) ' || v_key_code, 'null'
                )
                else pgq.data_code(i_table, i_format, 'i_new', v_ignored, i_args)
            end, v_name,
            case
                when v_options.o_backup
                    then pgq.data_code(i_table, case i_format when 'json' then 'json' else 'url' end, 'i_old', v_ignored, i_args)
                else 'null'
            end
        ),
        case
            when v_key = '{}' then 'false'
            when i_format = 'sql' then (
                select pg_catalog.string_agg(pg_catalog.format('(i_old).%I is not null', k.name), ' and ')
                from unnest(v_key) as k (name)
            )
            else 'true'
        end,
        pg_catalog.format(
            v_event, pgq.event_type(i_format, 'DELETE', v_table, v_list),
            case i_format
                when 'sql' then coalesce(v_key_code, 'null')
                else pgq.data_code(i_table, i_format, 'i_old', v_ignored, i_args)
            end, v_name, 'null'
        )
    );
end
$$;
revoke execute on function pgq.capture_body(regclass, text, text[]) from public;
