-- Put the rows of a stage among the dead letters of a consumer. A row that does not say which event it was is event 0,
-- of now. Locks nothing but the rows it writes; affects as many, or none when there is no such consumer.
insert into pgq.dead_letter (
    dl_queue, dl_consumer, dl_reason, ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,
    ev_extra1, ev_extra2, ev_extra3, ev_extra4
)
select
    registered.sub_queue as dl_queue,
    registered.sub_consumer as dl_consumer,
    coalesce(s.c1, 'a row that Spark could not use') as dl_reason,
    coalesce(s.c2::bigint, 0) as ev_id,
    coalesce(s.c3::timestamptz, now()) as ev_time,
    s.c4::bigint as ev_txid,
    s.c5::int4 as ev_retry,
    s.c6 as ev_type,
    s.c7 as ev_data,
    s.c8 as ev_extra1,
    s.c9 as ev_extra2,
    s.c10 as ev_extra3,
    s.c11 as ev_extra4
from rowbus_spark.:"stage" as s
cross join (
    select
        subscription.sub_queue,
        subscription.sub_consumer
    from pgq.subscription
    inner join pgq.queue on subscription.sub_queue = queue.queue_id
    inner join pgq.consumer on subscription.sub_consumer = consumer.co_id
    where
        queue.queue_name = :'log'
        and consumer.co_name = :'consumer'
) as registered
