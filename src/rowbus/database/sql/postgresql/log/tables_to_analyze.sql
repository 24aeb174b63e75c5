-- List the tables of events that have become the previous one of their log since they were last analysed: a truncated
-- table has no row count. Locks nothing. Returns schema and name.
select
    n.nspname::text,
    c.relname::text
from pgq.queue as q
inner join pg_class as c
    on
        c.oid = to_regclass(
            format('%s_%s', q.queue_data_pfx, (q.queue_cur_table + q.queue_ntables - 1) % q.queue_ntables)
        )
inner join pg_namespace as n on c.relnamespace = n.oid
where c.reltuples < 0
order by q.queue_name
