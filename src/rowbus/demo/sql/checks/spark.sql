-- Prove that Spark's replica and archive are complete, as the other checks do for the shop.
-- Locks nothing; returns a row for each check: place, name, title, checked, wrong, example.

-- The replica of the table orders has every row once, equal in every column, and no other. Checked: rows.
select
    1 as place,
    'replica_orders' as name,
    'Spark''s replica of the orders equals them, row by row' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (where counted.here <> 1 or counted.there <> 1) as wrong,
        min(
            format('%s times here, %s times in the replica: %s', counted.here, counted.there, counted.content)
        )
            filter (where counted.here <> 1 or counted.there <> 1) as example
    from (
        select
            rows.content,
            count(*) filter (where rows.place = 'here') as here,
            count(*) filter (where rows.place = 'there') as there
        from (
            select
                'here' as place,
                to_jsonb(orders) as content
            from rowbus_demo.orders
            union all
            select
                'there' as place,
                to_jsonb(orders) as content
            from rowbus_demo_replica.orders
        ) as rows
        group by rows.content
    ) as counted
) as found
union all
-- The replica of the table payments has every row once, equal in every column, and no other. Checked: rows.
select
    2 as place,
    'replica_payments' as name,
    'Spark''s replica of the payments equals them, row by row' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (where counted.here <> 1 or counted.there <> 1) as wrong,
        min(
            format('%s times here, %s times in the replica: %s', counted.here, counted.there, counted.content)
        )
            filter (where counted.here <> 1 or counted.there <> 1) as example
    from (
        select
            rows.content,
            count(*) filter (where rows.place = 'here') as here,
            count(*) filter (where rows.place = 'there') as there
        from (
            select
                'here' as place,
                to_jsonb(payments) as content
            from rowbus_demo.payments
            union all
            select
                'there' as place,
                to_jsonb(payments) as content
            from rowbus_demo_replica.payments
        ) as rows
        group by rows.content
    ) as counted
) as found
union all
-- The archive has every event of the log once, as it is there, and no other. Checked: events.
select
    3 as place,
    'archive' as name,
    'Spark''s archive equals the log, event by event' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (where counted.logged <> 1 or counted.archived <> 1) as wrong,
        min(
            format(
                'event %s: %s in the log, %s in the archive', counted.ev_id, counted.logged, counted.archived
            )
        )
            filter (where counted.logged <> 1 or counted.archived <> 1) as example
    from (
        select
            events.ev_id,
            count(*) filter (where events.place = 'log') as logged,
            count(*) filter (where events.place = 'archive') as archived
        from (
            select
                'log' as place,
                ev_id,
                ev_time,
                ev_txid,
                ev_retry,
                ev_type,
                ev_data,
                ev_extra1,
                ev_extra2,
                ev_extra3,
                ev_extra4
            from rowbus_demo.events
            union all
            select
                'archive' as place,
                ev_id,
                ev_time,
                ev_txid,
                ev_retry,
                ev_type,
                ev_data,
                ev_extra1,
                ev_extra2,
                ev_extra3,
                ev_extra4
            from rowbus_demo.archived
        ) as events
        group by
            events.ev_id,
            events.ev_time,
            events.ev_txid,
            events.ev_retry,
            events.ev_type,
            events.ev_data,
            events.ev_extra1,
            events.ev_extra2,
            events.ev_extra3,
            events.ev_extra4
    ) as counted
) as found
order by place
