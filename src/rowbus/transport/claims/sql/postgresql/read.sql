-- Read one part of a value, and of how many parts it is.
-- Locks nothing, never waits. Returns one row, or none when the value is not there.
select
    kept.parts,
    kept.content
from :"schema".:"claimed" as kept
where
    kept.id = :'value_id'::uuid
    and kept.part = :'part'::integer
