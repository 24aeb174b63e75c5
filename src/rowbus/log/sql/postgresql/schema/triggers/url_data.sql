-- Returns a text encoded for an url as logutriga does: a byte that is not a letter, a digit or one of "_.-" as %xx in
-- lower case, a space as a plus. A collation that takes different texts for one knows no patterns: it is left out.
create or replace function pgq.url_encode(i_text text)
returns text
language plpgsql stable strict as $$
declare
    v_given pg_catalog.text collate pg_catalog."C" := i_text;
    v_text pg_catalog.text collate pg_catalog."C";
begin
    if v_given operator(pg_catalog.!~) '[^A-Za-z0-9_.-]' then
        return i_text;
    end if;
    v_text := pg_catalog.translate(pg_catalog.replace(pg_catalog.replace(v_given, '%', '%25'), '+', '%2b'), ' ', '+');
    v_text := pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(v_text, '"', '%22'), '''', '%27'), ':', '%3a'), ',', '%2c'), '/', '%2f');
    v_text := pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(v_text, '=', '%3d'), '&', '%26'), '@', '%40'), ';', '%3b'), '(', '%28');
    v_text := pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(v_text, ')', '%29'), '[', '%5b'), ']', '%5d'), '{', '%7b'), '}', '%7d');
    v_text := pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(pg_catalog.replace(v_text, '<', '%3c'), '>', '%3e'), '!', '%21'), '?', '%3f'), '#', '%23');
    v_text := pg_catalog.replace(pg_catalog.replace(v_text, '*', '%2a'), '|', '%7c');
    if v_text operator(pg_catalog.!~) '[^A-Za-z0-9_.%+-]' then
        return v_text;
    end if;
    return (
        select pg_catalog.string_agg(
            case
                when m.found[1] is not null then m.found[1]
                when m.found[2] is not null then pg_catalog.translate(m.found[2], ' ', '+')
                else pg_catalog.regexp_replace(pg_catalog.encode(pg_catalog.convert_to(
                    m.found[3], pg_catalog.getdatabaseencoding()
                ), 'hex'), '(..)', e'%\\1', 'g')
            end, '' order by m.place
        )
        from pg_catalog.regexp_matches(
            v_given, '([A-Za-z0-9_.-]+)|( +)|([^A-Za-z0-9_. -]+)', 'g'
        ) with ordinality as m (found, place)
    );
end
$$;

-- Returns a row as logutriga writes it: name=value pairs, a NULL as the bare name. Locks nothing.
create or replace function pgq.url_data(i_names text[], i_kinds text[], i_texts text[], i_ignored text[])
returns text
language sql stable
return (
    select coalesce(pg_catalog.string_agg(
        pgq.url_encode(c.name) || coalesce('=' || pgq.url_encode(c.value), ''), '&' order by c.place
    ), '')
    from unnest(i_names, i_kinds, i_texts) with ordinality as c (name, kind, value, place)
    where c.name is not null and c.kind not like 'm%' and c.name <> all(coalesce(i_ignored, '{}'))
);
