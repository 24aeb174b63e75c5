-- Raises what is wrong with a trigger, in PgQ's order. i_table: schema and table. Locks nothing.
create or replace function pgq.check_trigger(
    i_op text, i_when text, i_args text[], i_options record, i_key text, i_names text[], i_table text[]
)
returns void
language plpgsql volatile as $$
declare
    v_error pg_catalog.text;
    v_table pg_catalog.text := pg_catalog.format('%I.%I', i_table[1], i_table[2]);
begin
    if coalesce(pg_catalog.cardinality(i_args), 0) operator(pg_catalog.=) 0 then
        raise exception using errcode = 'XX000', message = 'pgq trigger must have destination queue as argument';
    end if;
    if pg_catalog.pg_column_size(i_args) operator(pg_catalog.>) 8192 then
        raise exception using errcode = 'XX000', message = 'the arguments of a pgq trigger are longer than 8 kB';
    end if;
    v_error := case
        when i_op operator(pg_catalog.=) 'TRUNCATE' and i_options.o_expressions is not null
            then 'Custom expressions do not make sense for truncater trigger'
        when i_options.o_bad is not null then 'bad param to pgq trigger'
        when i_op operator(pg_catalog.=) 'TRUNCATE' and i_options.o_ignored is not null
            then 'Column ignore does not make sense for truncate trigger'
        when i_op operator(pg_catalog.=) 'TRUNCATE' and i_options.o_key is not null
            then 'Custom pkey_list does not make sense for truncate trigger'
        when i_op operator(pg_catalog.=) 'TRUNCATE' and i_options.o_backup then 'Backup does not make sense for truncate trigger'
        when i_op operator(pg_catalog.=) any('{UPDATE,DELETE}') and coalesce(i_key, '') operator(pg_catalog.=) ''
            then 'Update/Delete on table without pkey'
        when i_options.o_skip and i_when operator(pg_catalog.=) 'AFTER' then 'SKIP does not work in AFTER trigger.'
        when i_options.o_deny then pg_catalog.format(
            'Table ''%s.%s'' to queue ''%s'': change not allowed (%s)', i_table[1], i_table[2], i_args[0], i_op
        )
    end;
    if v_error is not null and i_op operator(pg_catalog.<>) 'TRUNCATE' then
        perform pgq.check_expressions(
            i_args[: coalesce(i_options.o_bad operator(pg_catalog.-) 1, pg_catalog.array_upper(i_args, 1))], i_names, v_table
        );
    end if;
    if v_error is not null then
        raise exception using errcode = 'XX000', message = v_error;
    end if;
end
$$;
