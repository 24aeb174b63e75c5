-- Quote a name that may have a schema before its first dot; without one it is of the schema public.
-- Returns the quoted name.
create or replace function pgq.quote_fqname(i_name text)
returns text
language plpgsql
strict
immutable
as $$
declare
    v_dot integer := pg_catalog.strpos(i_name, '.');
begin
    if v_dot operator(pg_catalog.>) 0 then
        return pg_catalog.format(
            '%I.%I',
            pg_catalog.substr(i_name, 1, v_dot operator(pg_catalog.-) 1),
            pg_catalog.substr(i_name, v_dot operator(pg_catalog.+) 1)
        );
    end if;
    return pg_catalog.format('public.%I', i_name);
end;
$$;
