-- Makes the event of a statement trigger, which can only be of a TRUNCATE; raises PgQ's errors. Locks nothing.
create or replace function pgq.statement_event(
    i_format text, i_op text, i_when text, i_relation oid, i_args text[], i_table text[]
)
returns text[]
language plpgsql volatile as $$
declare
    v_names pg_catalog.text[];
    v_key pg_catalog.text := case when pgq.is_exact(i_args) then pgq.exact_key(i_relation, i_args) else pgq.index_key(i_relation) end;
begin
    if i_op operator(pg_catalog.<>) 'TRUNCATE' then
        raise exception using errcode = 'XX000', message = 'pgq Ins/Upd/Del trigger must be fired FOR EACH ROW';
    end if;
    if 'as-root' operator(pg_catalog.=) any(i_args) and not pgq.root_truncated(i_format, i_when, i_relation, i_args) then
        return null;
    end if;
    select pg_catalog.array_agg(a.attname::pg_catalog.text)
    into v_names
    from pg_catalog.pg_attribute as a
    where
        a.attrelid operator(pg_catalog.=) i_relation
        and a.attnum operator(pg_catalog.>) 0
        and not a.attisdropped;
    perform pgq.check_trigger(i_op, i_when, i_args, pgq.trigger_options(i_args), v_key, v_names, i_table);
    return array[
        pgq.event_type(i_format, i_op, i_table, v_key), case when i_format operator(pg_catalog.=) 'json' then '{}' else '' end,
        pg_catalog.concat(i_table[1], '.', i_table[2]), null, null,
        case when pgq.tells_cause(i_args) then pgq.current_cause() end
    ];
end
$$;
