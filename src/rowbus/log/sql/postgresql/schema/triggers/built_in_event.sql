-- Makes the event of a row without magic columns and expressions; NULL for an update that has changed nothing of
-- interest. i_listed: the columns of i_key, without magic ones. i_row is the old row of a DELETE. Locks nothing.
drop function if exists pgq.built_in_event(
    text, text, anyelement, anyelement, text[], text[], text, text[], text[], text[], boolean, text[]
); -- an older installation's
create or replace function pgq.built_in_event(
    i_format text, i_op text, i_row anyelement, i_old anyelement, i_names text[], i_kinds text[], i_key text,
    i_listed text[], i_ignored text[], i_changed text[], i_backup boolean, i_table text[], i_masks text[]
)
returns text[]
language plpgsql stable as $$
declare
    v_backup boolean := i_op operator(pg_catalog.=) 'UPDATE' and i_backup;
    v_data pg_catalog.text;
begin
    v_data := case
        when i_format operator(pg_catalog.=) 'json' then pgq.json_data(i_row, i_names, i_kinds, i_ignored, i_masks)
        when i_format operator(pg_catalog.=) 'url' then pgq.url_data(i_names, i_kinds, pgq.masked_texts(pgq.row_texts(i_row), i_masks), i_ignored)
        else pgq.sql_data(
            i_op, i_names, i_kinds, pgq.masked_texts(pgq.row_texts(i_row), i_masks), pgq.masked_texts(pgq.row_texts(i_old), i_masks), i_changed, i_ignored,
            i_listed
        )
    end;
    if v_data is null then
        return null;
    end if;
    return array[
        pgq.event_type(i_format, i_op, i_table, i_key),
        v_data,
        pg_catalog.concat(i_table[1], '.', i_table[2]),
        case
            when v_backup and i_format operator(pg_catalog.=) 'json' then pgq.json_data(i_old, i_names, i_kinds, i_ignored, i_masks)
            when v_backup then pgq.url_data(i_names, i_kinds, pgq.masked_texts(pgq.row_texts(i_old), i_masks), i_ignored)
        end,
        null,
        null
    ];
end
$$;
