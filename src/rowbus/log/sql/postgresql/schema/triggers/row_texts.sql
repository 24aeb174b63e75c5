-- Returns the text form of each column of a row, as the session's settings have it, in the order of the table. Reads
-- them out of the text form of the whole row, so that no SQL has to be built. Locks nothing.
create or replace function pgq.row_texts(i_row anyelement)
returns text[]
language sql stable as $$
    select pg_catalog.array_agg(
        case
            when m.found[1] is not null
                then pg_catalog.replace(pg_catalog.replace(m.found[1], '""', '"'), e'\\\\', e'\\')
            when m.found[2] operator(pg_catalog.<>) '' then m.found[2]
        end
        order by m.place
    )
    from pg_catalog.regexp_matches(
        ',' operator(pg_catalog.||) pg_catalog.left(pg_catalog.substr(i_row::pg_catalog.text, 2), -1),
        ',(?:"((?:[^"]|"")*)"|([^,"]*))', 'g'
    ) with ordinality as m (found, place);
$$;
