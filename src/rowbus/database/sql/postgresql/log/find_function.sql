-- Find a function by the name maintenance knows it by, written as in SQL; without a schema, along the search path.
-- Locks nothing. Returns its schema and its name, or no row.
with wanted as (
    select parse_ident(:'name'::text) as parts
)

select
    n.nspname::text,
    p.proname::text
from wanted as w
inner join pg_proc as p on w.parts[cardinality(w.parts)] = p.proname
inner join pg_namespace as n on p.pronamespace = n.oid
where
    case
        when cardinality(w.parts) = 1 then pg_function_is_visible(p.oid)
        else n.nspname = w.parts[1]
    end
order by p.oid
limit 1
