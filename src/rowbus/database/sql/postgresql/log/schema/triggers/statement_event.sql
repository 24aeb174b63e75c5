-- Makes the event of a statement trigger, which can only be of a TRUNCATE; raises PgQ's errors. Locks nothing.
create or replace function pgq.statement_event(
    i_format text, i_op text, i_when text, i_relation oid, i_args text[], i_table text[]
)
returns text[]
language plpgsql volatile as $$
declare
    v_names text[];
    v_key text := pgq.table_key(i_relation);
begin
    if i_op <> 'TRUNCATE' then
        raise exception using errcode = 'XX000', message = 'pgq Ins/Upd/Del trigger must be fired FOR EACH ROW';
    end if;
    select pg_catalog.array_agg(a.attname::text)
    into v_names
    from pg_catalog.pg_attribute as a
    where a.attrelid = i_relation and a.attnum > 0 and not a.attisdropped;
    perform pgq.check_trigger(i_op, i_when, i_args, pgq.trigger_options(i_args), v_key, v_names, i_table);
    return array[
        pgq.event_type(i_format, i_op, i_table, v_key), case i_format when 'json' then '{}' else '' end,
        i_table[1] || '.' || i_table[2], null, null, null
    ];
end
$$;
