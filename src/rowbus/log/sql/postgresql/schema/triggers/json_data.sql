-- Returns a row as jsontriga writes it: a compact object, in the order of the table. Locks nothing.
drop function if exists pgq.json_data(anyelement, text[], text[], text[]); -- an older installation's
create or replace function pgq.json_data(
    i_row anyelement, i_names text[], i_kinds text[], i_ignored text[], i_masks text[]
)
returns text
language plpgsql stable as $$
declare
    v_json pg_catalog.json := pg_catalog.row_to_json(i_row);
    v_texts pg_catalog.text[];
begin
    if i_ignored is null and i_masks is null and pg_catalog.array_to_string(i_kinds, '') operator(pg_catalog.!~) '[sm]' then
        return v_json::pg_catalog.text;
    end if;
    v_texts := pgq.masked_texts(pgq.row_texts(i_row), i_masks);
    return pg_catalog.concat('{', (
        select pg_catalog.string_agg(pg_catalog.concat(
            pg_catalog.to_json(c.name), ':',
            case
                when c.kind operator(pg_catalog.~~) 'n%' and i_masks[c.place] is null then v_json operator(pg_catalog.->) c.name
                else coalesce(pg_catalog.to_json(v_texts[c.place]), 'null')
            end
        ), ',' order by c.place)
        from rows from (pg_catalog.unnest(i_names), pg_catalog.unnest(i_kinds)) with ordinality as c (name, kind, place)
        where c.kind operator(pg_catalog.!~~) 'm%' and c.name operator(pg_catalog.<>) all(coalesce(i_ignored, '{}'))
    ), '}');
end
$$;
