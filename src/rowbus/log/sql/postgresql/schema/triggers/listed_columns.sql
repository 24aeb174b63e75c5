-- Returns the names that stand in a list, as PgQ reads one: between commas and white space, which a name may contain.
-- Locks nothing.
create or replace function pgq.listed_columns(i_list text, i_names text[])
returns text[]
language sql immutable
return (
    select pg_catalog.array_agg(n.name)
    from unnest(i_names) as n (name)
    where i_list ~ pg_catalog.concat(
        e'(^|[,\\s])', pg_catalog.regexp_replace(n.name, e'[][()|^$.*+?{}\\\\]', e'\\\\\\&', 'g'),
        e'($|[,\\s])'
    )
);

-- Returns the names of a key's list that are columns: of a list that a trigger was given, as PgQ reads one; of the
-- catalogue's, which has spaces only within names, those between its commas. Locks nothing.
create or replace function pgq.key_columns(i_given text, i_key text, i_names text[])
returns text[]
language sql immutable
return case
    when i_given is not null then pgq.listed_columns(i_given, i_names)
    else array(
        select n.name from unnest(i_names) as n (name)
        where n.name = any(pg_catalog.string_to_array(i_key, ','))
    )
end;
