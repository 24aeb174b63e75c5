-- Remove a consumer from a log with its retry queue. A batch that a subconsumer has goes to the others of its consumer,
-- whose name the subconsumer's begins with.
-- Deletes its subscription and those of its subconsumers. Returns how many rows that were; 0 means there was none.
select
    coalesce(
        (
            select
                pgq_coop.unregister_subconsumer(
                    q.queue_name, main.co_name, substr(member.co_name, length(main.co_name) + 2), 1
                )
            from pgq.queue as q
            inner join pgq.consumer as member on member.co_name = :'consumer'::text
            inner join pgq.subscription as s on q.queue_id = s.sub_queue and member.co_id = s.sub_consumer
            inner join pgq.subscription as m on q.queue_id = m.sub_queue and s.sub_id = m.sub_id
            inner join pgq.consumer as main on m.sub_consumer = main.co_id
            where q.queue_name = :'log'::text and starts_with(member.co_name, main.co_name || '.')
        ),
        pgq.unregister_consumer(:'log'::text, :'consumer'::text)
    ) as unregistered
