-- Find which of the newest dead letters of all consumers hold one of the texts, in what their events say or in the reason.
-- Data is looked into if `data` says so. Locks nothing; returns up to `most` rows, the newest first: log, consumer, number,
-- type, and the event's id.
select
    q.queue_name,
    c.co_name,
    d.dl_id,
    coalesce(d.ev_type, '') as ev_type,
    d.ev_id::text as ev_id
from (
    select newest.*
    from pgq.dead_letter as newest
    order by newest.dl_id desc
    limit :'looked_at'::integer
) as d
inner join pgq.queue as q on d.dl_queue = q.queue_id
inner join pgq.consumer as c on d.dl_consumer = c.co_id
where exists (
    select from unnest(:'texts'::text[]) as wanted (text)
    where position(wanted.text in concat_ws(
        chr(10),
        d.ev_id,
        d.ev_type,
        d.ev_extra1,
        d.ev_extra2,
        d.ev_extra3,
        d.ev_extra4,
        d.dl_reason,
        case when :'data'::boolean then d.ev_data end
    )) > 0
)
order by d.dl_id desc
limit :'most'::integer
