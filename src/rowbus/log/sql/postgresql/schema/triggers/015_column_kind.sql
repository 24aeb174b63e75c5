-- Returns the two letters of row_kinds for one column. row_to_json writes numbers, JSON, arrays and composites bare
-- where jsontriga writes a string of their text form, and follows casts to json; text forms of equal values differ for
-- numbers, char(n) and what else has an operator of its own.
create or replace function pgq.column_kind(i_name name, i_type oid)
returns text
language sql stable
return (
    select case
            when i_name like e'\\_pgq\\_ev\\_%' then 'm'
            when i_type in (16, 20, 21, 23, 25, 1043, 1042, 19, 1082, 1083, 1114, 1184, 1186, 1266, 2950, 17) then 'n'
            else 's'
        end || case
            when b.base in (16, 20, 21, 23, 25, 1043, 19, 17, 26, 1082, 1083, 1114, 1184, 2950) then 't'
            when b.base in (700, 701) then 'f'
            when b.typtype = 'e' or b.typelem <> 0 and b.typlen = -1 then 't'
            when b.typtype in ('c', 'r', 'm') or exists (
                select from pg_catalog.pg_opclass as c
                where c.opcintype = b.base and c.opcdefault and c.opcmethod in (403, 405)
            ) then 'o'
            else 't'
        end
    from (
        select
            coalesce(nullif(t.typbasetype, 0), t.oid) as base,
            t.typtype,
            t.typelem,
            t.typlen
        from pg_catalog.pg_type as t
        where t.oid = i_type
    ) as b
);

-- Returns an expression that strings together the arguments of concat: a function takes no more than 100. NULL of none.
create or replace function pgq.concat_code(i_parts text[])
returns text
language sql immutable
set search_path = pg_catalog, pgq, pg_temp as $$
    select case
            when pg_catalog.count(*) = 1 then pg_catalog.min(c.code)
            else pg_catalog.format('pg_catalog.concat(%s)', pg_catalog.string_agg(c.code, e',\n' order by c.part))
        end
    from (
        select
            (p.place - 1) / 40 as part,
            pg_catalog.format('pg_catalog.concat(%s)', pg_catalog.string_agg(p.code, e',\n' order by p.place)) as code
        from unnest(i_parts) with ordinality as p (code, place)
        group by (p.place - 1) / 40
    ) as c
    having pg_catalog.count(*) > 0;
$$;
revoke execute on function pgq.concat_code(text[]) from public;
