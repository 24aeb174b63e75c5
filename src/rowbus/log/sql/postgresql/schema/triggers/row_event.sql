-- Makes the event of a row trigger, for any table: an exact one with settings of its own. Locks nothing.
create or replace function pgq.row_event(
    i_format text, i_op text, i_when text, i_new anyelement, i_old anyelement, i_args text[], i_table text[]
)
returns text[]
language plpgsql volatile as $$
begin
    return case
        when pgq.is_exact(i_args) then pgq.settled_event(i_format, i_op, i_when, i_new, i_old, i_args, i_table)
        else pgq.general_event(i_format, i_op, i_when, i_new, i_old, i_args, i_table)
    end;
end
$$;

-- Makes the event of a row trigger from its arguments: returns ev_type, ev_data and ev_extra1 ... 4, or
-- NULL when the change is to be passed over. An exact capture writes the update of a key as two: those of a DELETE, then
-- those of an INSERT. Raises PgQ's errors in PgQ's order. Locks nothing.
-- Invariant: what the planner found out about the table is in one plan with the table's name (see row_table).
create or replace function pgq.general_event(
    i_format text, i_op text, i_when text, i_new anyelement, i_old anyelement, i_args text[], i_table text[]
)
returns text[]
language plpgsql volatile as $$
declare
    v_names pg_catalog.text[] := case
        when i_op is null then array[pgq.row_table(case when false then i_new end)::pg_catalog.text]
        else pgq.row_columns(case when false then i_new end)
    end;
    v_kinds pg_catalog.text[] := case
        when i_op is null then array[pgq.row_table(case when false then i_new end)::pg_catalog.text]
        else pgq.row_kinds(case when false then i_new end)
    end;
    v_exact boolean := pgq.is_exact(i_args);
    v_key pg_catalog.text := case
        when i_op is null then pgq.row_table(case when false then i_new end)::pg_catalog.text
        when 'whole-row' operator(pg_catalog.=) any(i_args) then pgq.row_whole_key(case when false then i_new end, i_args)
        when v_exact then pgq.row_key(case when false then i_new end)
        else pgq.row_index_key(case when false then i_new end)
    end;
    v_generated pg_catalog.text[] := case
        when i_op is null then array[pgq.row_table(case when false then i_new end)::pg_catalog.text]
        when v_exact and i_format operator(pg_catalog.=) 'sql' then pgq.row_generated(case when false then i_new end)
    end;
    v_table pg_catalog.text[] := case
        when i_op is null then array[
            pgq.row_table(case when false then i_new end)::pg_catalog.text, pgq.row_root(case when false then i_new end)::pg_catalog.text
        ]
        when 'as-root' operator(pg_catalog.=) any(i_args) then pgq.row_root_name(case when false then i_new end)
        else i_table
    end;
    v_listed pg_catalog.text[];
    v_ignored pg_catalog.text[];
    v_masks pg_catalog.text[] := pgq.column_masks(i_args, v_names);
    v_options pg_catalog.record := pgq.trigger_options(i_args);
    v_compared pg_catalog.text[];
    v_changed pg_catalog.text[];
    v_event pg_catalog.text[];
begin
    v_key := coalesce(v_options.o_key, v_key);
    perform pgq.check_trigger(i_op, i_when, i_args, v_options, v_key, v_names, i_table);
    v_listed := array(
        select l.name
        from pg_catalog.unnest(case
            when v_exact then pgq.key_columns(v_options.o_key, v_key, v_names)
            else pgq.listed_columns(v_key, v_names)
        end) as l (name)
        where l.name operator(pg_catalog.!~~) e'\\_pgq\\_ev\\_%'
    );
    v_ignored := case
        when v_options.o_ignored is not null then coalesce(pgq.listed_columns(v_options.o_ignored, v_names), '{}')
    end;
    v_ignored := case when v_generated is not null then coalesce(v_ignored, '{}') operator(pg_catalog.||) v_generated else v_ignored end;
    if v_exact and i_op operator(pg_catalog.=) 'UPDATE' then
        v_compared := pg_catalog.array_fill('nt'::pg_catalog.text, array[pg_catalog.cardinality(v_kinds)]);
        if pgq.changed_columns(i_new, i_old, v_names, v_compared, v_listed) operator(pg_catalog.<>) '{}' then
            return pgq.general_event(i_format, 'DELETE', i_when, i_old, i_old, i_args, i_table)
                operator(pg_catalog.||) pgq.general_event(i_format, 'INSERT', i_when, i_new, i_new, i_args, i_table);
        end if;
    end if;
    if i_op operator(pg_catalog.=) 'UPDATE' then
        v_changed := pgq.interesting_changes(
            i_format, i_new, i_old, v_names, coalesce(v_compared, v_kinds), v_listed, v_ignored, i_args
        );
    end if;
    if i_op operator(pg_catalog.<>) 'UPDATE' or v_changed is not null then
        v_event := pgq.built_in_event(
            i_format, i_op, case when i_op operator(pg_catalog.=) 'DELETE' then i_old else i_new end, i_old, v_names, v_kinds, v_key,
            v_listed, v_ignored, v_changed, v_options.o_backup, v_table, v_masks
        );
    end if;
    if v_event is null then
        perform pgq.check_expressions(i_args, v_names, pgq.row_table(i_new));
        return null;
    end if;
    v_event[6] := case when pgq.tells_cause(i_args) then pgq.current_cause() end;
    return pgq.override_event(
        v_event, v_options.o_expressions, i_args, v_names, v_kinds, case when i_op operator(pg_catalog.=) 'DELETE' then i_old else i_new end
    );
end
$$;
