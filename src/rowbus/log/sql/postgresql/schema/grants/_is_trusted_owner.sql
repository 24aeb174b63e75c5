-- Say whether maintenance may run a role's functions: those of superusers, of schema pgq's owner and of the caller.
-- The role that runs maintenance lends its rights to the functions that it calls.
-- Locks nothing.
create or replace function pgq._is_trusted_owner(i_owner oid)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select exists (
        select
        from pg_catalog.pg_roles as r
        where r.oid = i_owner and (r.rolsuper or r.rolname = current_user)
    )
    or exists (
        select
        from pg_catalog.pg_namespace as n
        where n.nspname = 'pgq' and n.nspowner = i_owner
    );
$$;
revoke execute on function pgq._is_trusted_owner(oid) from public;

-- Find the untrusted owners of the functions that a name may mean; without a schema, those of every schema.
-- NULL: all are trusted, or there is no such function. A text that cannot be a function's name is given back itself,
-- in words.
-- Locks nothing.
create or replace function pgq._untrusted_owner(i_function text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name text[];
    v_functions name[];
begin
    begin
        v_name := parse_ident(i_function);
    exception
        when invalid_parameter_value then null;
    end;
    if v_name is null or cardinality(v_name) > 2 then
        return 'no role, for that is no name of a function';
    end if;
    -- What may be the function's own name: an index finds these among some thousands.
    v_functions := array(
        select substr(i_function, dot.place + 1)
        from generate_series(0, 64) as dot (place) -- a schema's name has at most 63 characters
        where dot.place = 0 or substr(i_function, dot.place, 1) = '.'
    ) || v_name[cardinality(v_name)];
    return (
        select string_agg(distinct quote_ident(pg_get_userbyid(p.proowner)), ', ')
        from pg_proc as p
        inner join pg_namespace as n on p.pronamespace = n.oid
        where
            p.proname = any(v_functions)
            and (
                -- as SQL reads the name, and as it would be if it were quoted
                p.proname = v_name[cardinality(v_name)] and (cardinality(v_name) = 1 or n.nspname = v_name[1])
                or i_function in (p.proname, n.nspname || '.' || p.proname)
            )
            and not pgq._is_trusted_owner(p.proowner)
    );
end;
$$;
revoke execute on function pgq._untrusted_owner(text) from public;
