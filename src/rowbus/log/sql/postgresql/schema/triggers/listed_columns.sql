-- Returns the names that stand in a list, as PgQ reads one: between commas and white space, which a name may contain.
-- Locks nothing.
create or replace function pgq.listed_columns(i_list text, i_names text[])
returns text[]
language sql immutable
return (
    select pg_catalog.array_agg(n.name)
    from unnest(i_names) as n (name)
    where i_list ~ pg_catalog.concat(
        '(^|[,\s])', pg_catalog.regexp_replace(n.name, '[][()|^$.*+?{}\\]', '\\\&', 'g'), '($|[,\s])'
    )
);
