-- List logs with their current table, last rotation and retained ticks: the logs with these names, or whose names match
-- a regular expression.
-- Locks nothing. Returns a row a log: name, id, tables' prefix, number of the current table, number of tables, the two
-- transactions of the last rotation, then id, snapshot, sequence and time of the oldest tick and of the newest.
select
    q.queue_name,
    q.queue_id,
    q.queue_data_pfx,
    q.queue_cur_table,
    q.queue_ntables,
    q.queue_switch_step1,
    q.queue_switch_step2,
    o.tick_id as oldest,
    o.tick_snapshot::text as oldest_snapshot,
    o.tick_event_seq as oldest_seq,
    to_char(o.tick_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as oldest_time,
    n.tick_id as newest,
    n.tick_snapshot::text as newest_snapshot,
    n.tick_event_seq as newest_seq,
    to_char(n.tick_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as newest_time
from pgq.queue as q
left join lateral (
    select t.* from pgq.tick as t
    where t.tick_queue = q.queue_id
    order by t.tick_id
    limit 1
) as o on true
left join lateral (
    select t.* from pgq.tick as t
    where t.tick_queue = q.queue_id
    order by t.tick_id desc
    limit 1
) as n on true
where q.queue_name = any(:'logs'::text[]) or q.queue_name ~ :'pattern'::text
order by q.queue_name
