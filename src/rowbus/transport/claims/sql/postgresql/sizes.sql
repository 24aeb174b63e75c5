-- Ask how large values are, before any of them is read. Sizes are known without reading the contents.
-- Locks nothing, never waits. Returns a row for each value that is there: its id, and the bytes of its parts together.
select
    kept.id::text as id,
    sum(octet_length(kept.content))::bigint as size
from :"schema".:"claimed" as kept
where kept.id = any(:'value_ids'::uuid[])
group by kept.id
