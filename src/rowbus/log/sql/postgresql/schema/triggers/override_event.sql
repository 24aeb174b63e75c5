-- Puts magic columns and expressions in the place of an event's fields; returns NULL when when= is false.
-- Raises an error for a magic column that PgQ does not know. Locks what the expressions do.
create or replace function pgq.override_event(
    i_event text[], i_expressions text[], i_args text[], i_names text[], i_kinds text[], i_row anyelement
)
returns text[]
language plpgsql volatile as $$
declare
    v_fields pg_catalog.text[] := '{type,data,extra1,extra2,extra3,extra4}';
    v_texts pg_catalog.text[];
    v_place integer;
    v_value pg_catalog.record;
begin
    for i in 1 .. pg_catalog.cardinality(i_names) loop
        continue when i_kinds[i] operator(pg_catalog.!~~) 'm%';
        v_place := pg_catalog.array_position(v_fields, pg_catalog.substr(i_names[i], 9));
        if v_place is null then
            perform pgq.check_expressions(i_args, i_names, pgq.row_table(i_row));
            raise exception using errcode = 'XX000', message = pg_catalog.concat('Unknown magic column: ', i_names[i]);
        end if;
        v_texts := coalesce(v_texts, pgq.row_texts(i_row));
        i_event[v_place] := v_texts[i];
    end loop;
    for i in 1 .. coalesce(pg_catalog.cardinality(i_expressions), 0) loop
        continue when i_expressions[i] is null;
        v_value := pgq.evaluate_expression(i_expressions[i], i_names, i_row);
        if i operator(pg_catalog.<) 7 then
            i_event[i] := v_value.o_value;
        elsif v_value.o_type operator(pg_catalog.<>) 16 then
            raise exception using
                errcode = 'XX000',
                message = pg_catalog.format('when= query result must be boolean, got=%s', v_value.o_type);
        elsif v_value.o_value is null then
            raise exception using errcode = 'XX000', message = 'when= should not be NULL';
        elsif v_value.o_value operator(pg_catalog.=) 'f' then
            return null;
        end if;
    end loop;
    return i_event;
end
$$;
