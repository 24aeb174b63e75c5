-- Returns the ev_type of a trigger's event. i_table: schema and table. Locks nothing.
create or replace function pgq.event_type(i_format text, i_op text, i_table text[], i_key text)
returns text
language sql immutable
return (
    select case i_format
            when 'json' then pg_catalog.concat(
                '{"op":"', i_op, '","table":[', pg_catalog.to_json(i_table[1]), ',', pg_catalog.to_json(i_table[2]), '],"pkey":[',
                (
                    select pg_catalog.string_agg(pg_catalog.to_json(k.name)::text, ',' order by k.place)
                    from pg_catalog.regexp_split_to_table(i_key, ',') with ordinality as k (name, place)
                ), ']}'
            )
            else pg_catalog.concat(
                case i_op when 'TRUNCATE' then 'R' else pg_catalog.left(i_op, 1) end,
                case
                    when i_format = 'url' and i_op <> 'TRUNCATE' then ':' || coalesce(i_key, '')
                end
            )
        end
);
