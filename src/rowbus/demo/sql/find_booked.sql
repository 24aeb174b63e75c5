-- Find out whether a consumer has finished all that was committed before a transaction number was taken.
-- Locks nothing; returns one row if so, else none.
select ticks.tick_id
from pgq.queue as logs
inner join pgq.subscription as subscriptions on logs.queue_id = subscriptions.sub_queue
inner join pgq.consumer as consumers on subscriptions.sub_consumer = consumers.co_id
inner join pgq.tick as ticks
    on
        logs.queue_id = ticks.tick_queue
        and subscriptions.sub_last_tick = ticks.tick_id
where
    logs.queue_name = :'log'::text
    and consumers.co_name = :'consumer'::text
    and txid_visible_in_snapshot(:'mark', ticks.tick_snapshot)
