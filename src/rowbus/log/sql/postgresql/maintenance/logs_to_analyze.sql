-- List the logs whose previous table has not been analysed since the last rotation: a truncated table has no row count.
-- Locks nothing. Returns their names.
select q.queue_name
from pgq.queue as q
inner join pg_class as c
    on
        c.oid = to_regclass(
            format('%s_%s', q.queue_data_pfx, (q.queue_cur_table + q.queue_ntables - 1) % q.queue_ntables)
        )
where c.reltuples < 0
order by q.queue_name
