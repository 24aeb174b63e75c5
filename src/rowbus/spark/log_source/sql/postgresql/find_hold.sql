-- Find a consumer's registration.
-- Locks nothing. Returns subscription, last finished tick, open batch (NULL: none) and number of cooperative members, or
-- no row when the consumer is not registered.
select
    s.sub_id,
    s.sub_last_tick,
    s.sub_batch,
    (select count(*) - 1 from pgq.subscription as m where m.sub_id = s.sub_id) as members
from pgq.queue as q
inner join pgq.subscription as s on q.queue_id = s.sub_queue
inner join pgq.consumer as c on s.sub_consumer = c.co_id
where q.queue_name = :'log'::text and c.co_name = :'consumer'::text
