-- Register a subconsumer, and its main consumer, if they are not registered yet: a new main consumer at the newest tick, or,
-- with `from_oldest`, at the oldest tick there is.
-- Locks the consumer's row. Returns 1 if the subconsumer was registered now, 0 if it already was; no row: there is no log.
with main as materialized (
    select
        q.queue_name,
        case
            when :'from_oldest'::boolean and s.sub_id is null
                then pgq.register_consumer_at(
                    q.queue_name,
                    :'consumer'::text,
                    (select min(t.tick_id) from pgq.tick as t where t.tick_queue = q.queue_id)
                )
        end as registered
    from pgq.queue as q
    left join pgq.consumer as c on c.co_name = :'consumer'::text
    left join pgq.subscription as s on q.queue_id = s.sub_queue and c.co_id = s.sub_consumer
    where q.queue_name = :'log'::text
)

select pgq_coop.register_subconsumer(main.queue_name, :'consumer'::text, :'subconsumer'::text) as registered
from main
