-- List what would be lost with the schema pgq: its queues, and triggers on other tables that use its functions.
-- Locks nothing; returns one row each, a text for people.
select 'queue ' || q.queue_name as lost
from pgq.queue as q
union all
select 'trigger ' || t.tgname || ' on ' || t.tgrelid::regclass::text
from pg_trigger as t
    inner join pg_proc as p on t.tgfoid = p.oid
    inner join pg_class as c on t.tgrelid = c.oid
where not t.tgisinternal
    and p.pronamespace in (select n.oid from pg_namespace as n where n.nspname like 'pgq%')
    and c.relnamespace not in (select n.oid from pg_namespace as n where n.nspname like 'pgq%')
order by 1
