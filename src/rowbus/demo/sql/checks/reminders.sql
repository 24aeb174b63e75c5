-- When its payment was due, each order was looked at once, not too early, and its customer was reminded if the order was
-- not paid by then, nor declined. Checked: orders that were placed. Wrong: those where one of these is not so.
-- Locks nothing; returns one row: checked, wrong, an example.
select
    count(*) as checked,
    count(*) filter (where looks.number <> 1 or looks.early or looks.mistaken) as wrong,
    min(format('%s: looked at %s times, reminded: %s', looks.order_id, looks.number, looks.sent))
        filter (where looks.number <> 1 or looks.early or looks.mistaken) as example
from (
    select
        orders.order_id,
        count(reminders.order_id) as number,
        bool_or(reminders.sent) as sent,
        coalesce(bool_or(reminders.at < orders.placed_at + :'due_after'::interval), false) as early,
        coalesce(
            bool_or(
                reminders.sent <> (coalesce(orders.paid_at, orders.finished_at, 'infinity') > reminders.at)
            ), false
        ) as mistaken
    from rowbus_demo.orders
    left join rowbus_demo.reminders on orders.order_id = reminders.order_id
    where orders.state <> 'rejected'
    group by orders.order_id
) as looks
