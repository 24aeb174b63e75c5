-- Returns the query that an ev_…= or when= argument stands for: bare words that are names of columns become fields of
-- the row $1; strings, comments, other names and qualified ones are left alone. Locks nothing.
create or replace function pgq.column_expression(i_expression text, i_names text[])
returns text
language plpgsql immutable as $$
declare
    v_token text;
    v_query text := '';
begin
    for v_token in
        select m.found[1]
        from pg_catalog.regexp_matches(
            i_expression,
            '(--[^\n]*|/\*(?:[^*]|\*+[^*/])*\*+/|[eE]''(?:[^\\'']|\\.|'''')*''|''(?:[^'']|'''')*''|"(?:[^"]|"")*"'
            || '|\$\w*\$[^$]*\$\w*\$|\d+(?:\.\d+)?(?:[eE]\d+)?'
            || '|(?:[[:alpha:]_][\w$]*|"(?:[^"]|"")*")(?:\s*\.\s*(?:[[:alpha:]_][\w$]*|"(?:[^"]|"")*"|\*))*'
            || '|\.\s*[\w$]+|.)', 'g'
        ) with ordinality as m (found, place)
        order by m.place
    loop
        if v_token in ('''', '"') then
            raise exception using errcode = 'XX000', message = 'QB: syntax error';
        elsif v_token = any(i_names) then
            v_token := '(($1).' || pg_catalog.quote_ident(v_token) || ')';
        elsif v_token like '"%"' and replace(pg_catalog.substr(v_token, 2, pg_catalog.length(v_token) - 2), '""', '"') = any(i_names)
        then
            v_token := '(($1).' || v_token || ')';
        end if;
        v_query := v_query || v_token;
    end loop;
    return pg_catalog.regexp_replace(v_query, ';\s*$', '');
end
$$;
