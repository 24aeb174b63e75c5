-- Register a consumer if it is not yet: at the newest tick, so that it is given what commits from now on, or, with
-- `from_oldest`, at the oldest tick there is.
-- Locks the consumer's row. Returns 1 if it was registered now, 0 if it already was.
select
    case
        when not :'from_oldest'::boolean then pgq.register_consumer(q.queue_name, :'consumer'::text)
        when s.sub_id is not null then 0
        else pgq.register_consumer_at(
            q.queue_name,
            :'consumer'::text,
            (select min(t.tick_id) from pgq.tick as t where t.tick_queue = q.queue_id)
        )
    end as registered
from pgq.queue as q
left join pgq.consumer as c on c.co_name = :'consumer'::text
left join pgq.subscription as s on q.queue_id = s.sub_queue and c.co_id = s.sub_consumer
where q.queue_name = :'log'::text
