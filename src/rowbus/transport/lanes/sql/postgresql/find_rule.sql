-- Find by what rule a queue has lanes: the arguments of its trigger, as text, and whether its function is as
-- given and runs for every sender.
-- Locks nothing; returns a row, or none where it has no lanes.
select
    encode(placed.tgargs, 'escape') as arguments,
    called.prosrc = :'body'::text and placed.tgenabled = 'A' as is_ours
from pg_catalog.pg_trigger as placed
inner join pg_catalog.pg_proc as called on placed.tgfoid = called.oid
where
    placed.tgrelid = to_regclass(:'table_name'::text)
    and placed.tgname = 'rowbus_lane'
