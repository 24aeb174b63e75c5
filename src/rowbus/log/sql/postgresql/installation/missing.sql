-- List which of these functions and relations do not exist, and what queues lack: a table, a sequence, the insert
-- function of their own (without it they work, but more slowly).
-- Locks nothing; returns one row each, a text for people.
select 'function ' || f.name || ' is missing' as difference
from unnest(:'functions'::text[]) as f (name)
where not exists (
    select from pg_proc as p
    where p.pronamespace = to_regnamespace(split_part(f.name, '.', 1))
        and p.proname = split_part(f.name, '.', 2)
)
union all
select 'relation ' || r.name || ' is missing'
from unnest(:'relations'::text[]) as r (name)
where to_regclass(r.name) is null
union all
select format('queue %s: %s is missing', q.queue_name, o.name)
from pgq.queue as q
    cross join lateral (
        values (q.queue_data_pfx), (q.queue_event_seq), (q.queue_tick_seq)
        union all
        select q.queue_data_pfx || '_' || n.number
        from generate_series(0, q.queue_ntables - 1) as n (number)
    ) as o (name)
where to_regclass(o.name) is null
union all
select format('queue %s: its insert function is missing; run select pgq.upgrade_schema()', q.queue_name)
from pgq.queue as q
where to_regproc('pgq.insert_event_' || q.queue_id) is null
order by 1
