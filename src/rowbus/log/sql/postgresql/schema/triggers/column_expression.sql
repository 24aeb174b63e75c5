-- Returns the query that an ev_...= or when= argument stands for: bare words that are names of columns become fields of
-- the row $1; strings, comments, other names and qualified ones are left alone. Locks nothing.
create or replace function pgq.column_expression(i_expression text, i_names text[])
returns text
language plpgsql immutable as $$
declare
    v_token pg_catalog.text;
    v_query pg_catalog.text := '';
begin
    for v_token in
        select m.found[1]
        from pg_catalog.regexp_matches(
            i_expression,
            pg_catalog.concat(
                e'(--[^\\n]*|/\\*(?:[^*]|\\*+[^*/])*\\*+/|[eE]''(?:[^\\\\'']|\\\\.|'''')*''|''(?:[^'']|'''')*''|"(?:[^"]|"")*"',
                e'|\\$\\w*\\$[^$]*\\$\\w*\\$|\\d+(?:\\.\\d+)?(?:[eE]\\d+)?',
                e'|(?:[[:alpha:]_][\\w$]*|"(?:[^"]|"")*")(?:\\s*\\.\\s*(?:[[:alpha:]_][\\w$]*|"(?:[^"]|"")*"|\\*))*',
                e'|\\.\\s*[\\w$]+|.)'
            ), 'g'
        ) with ordinality as m (found, place)
        order by m.place
    loop
        if v_token operator(pg_catalog.=) '''' or v_token operator(pg_catalog.=) '"' then
            raise exception using errcode = 'XX000', message = 'QB: syntax error';
        elsif v_token operator(pg_catalog.=) any(i_names) then
            v_token := pg_catalog.concat('(($1).', pg_catalog.quote_ident(v_token), ')');
        elsif v_token operator(pg_catalog.~~) '"%"' and pg_catalog.replace(
            pg_catalog.substr(v_token, 2, pg_catalog.length(v_token) operator(pg_catalog.-) 2), '""', '"'
        ) operator(pg_catalog.=) any(i_names) then
            v_token := pg_catalog.concat('(($1).', v_token, ')');
        end if;
        v_query := pg_catalog.concat(v_query, v_token);
    end loop;
    return pg_catalog.regexp_replace(v_query, e';\\s*$', '');
end
$$;
