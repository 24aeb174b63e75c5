-- Prove that messages did what they promise: failures, retries, events, delays, expiry, the log. A check counts what it
-- looked at and what is wrong with it, and gives an example of what is wrong.
-- Locks nothing; returns a row for each check: place, name, title, checked, wrong, example.

-- A failed message has left nothing behind but itself: no order where placing failed, no payment where charging
-- failed, no shipment where shipping failed. Checked: messages in the error queue.
select
    8 as place,
    'failures_undone' as name,
    'A failed message left nothing behind but itself' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (where traces.found) as wrong,
        min(format('%s of %s', traces.message_type, traces.order_id)) filter (where traces.found) as example
    from (
        select
            failures.order_id,
            failures.message_type,
            case failures.message_type
                when 'Shop.PlaceOrder'
                    then exists (select from rowbus_demo.orders where orders.order_id = failures.order_id)
                when 'Shop.ChargeCard'
                    then exists (select from rowbus_demo.payments where payments.order_id = failures.order_id)
                when 'Shop.ShipOrder'
                    then
                        exists (
                            select from rowbus_demo.shipments where shipments.order_id = failures.order_id
                        )
                else false
            end as found
        from rowbus_demo.failures
    ) as traces
) as found
union all
-- A charge whose bank was down for a while has worked at the delayed retry. Checked: orders with a card of such a
-- bank. Wrong: those without one payment that was charged at as many delayed retries as that took, not before their
-- time.
select
    9 as place,
    'delayed_retries' as name,
    'A charge whose bank slept has worked at the delayed retry' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (where charges.worked <> 1) as wrong,
        min(format('%s was charged %s times at its delayed retry', charges.order_id, charges.worked))
            filter (where charges.worked <> 1) as example
    from (
        select
            orders.order_id,
            count(payments.order_id) filter (
                where
                payments.state = 'charged'
                and payments.delayed_retries = outages.retries
                and payments.settled_at >= orders.placed_at + :'again_after'::interval
            ) as worked
        from rowbus_demo.orders
        inner join rowbus_demo.lines on orders.order_id = lines.order_id
        inner join rowbus_demo.outages on lines.token = outages.token
        left join rowbus_demo.payments on orders.order_id = payments.order_id
        where
            orders.state <> 'rejected'
            and outages.retries is not null
            and lines.problem is null
        group by orders.order_id
    ) as charges
) as found
union all
-- A charge that ended in the error queue, because its bank was broken, was put back when it had been mended, and
-- has worked. Checked: orders with a card of such a bank. Wrong: those that were not put back once, or without one
-- payment that was charged after that and counted its retries anew.
select
    10 as place,
    'put_back' as name,
    'A charge put back from the error queue has worked, once' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (where charges.returns <> 1 or charges.worked <> 1) as wrong,
        min(format('%s was put back %s times, charged %s', charges.order_id, charges.returns, charges.worked))
            filter (where charges.returns <> 1 or charges.worked <> 1) as example
    from (
        select
            orders.order_id,
            (
                select count(*)
                from rowbus_demo.put_back
                where put_back.order_id = orders.order_id
            ) as returns,
            (
                select count(*)
                from rowbus_demo.payments
                inner join rowbus_demo.put_back on payments.order_id = put_back.order_id
                where
                    payments.order_id = orders.order_id
                    and payments.state = 'charged'
                    and payments.delayed_retries = 0
                    and payments.settled_at > put_back.at
                    and put_back.at > outages.mended_at
            ) as worked
        from rowbus_demo.orders
        inner join rowbus_demo.lines on orders.order_id = lines.order_id
        inner join rowbus_demo.outages on lines.token = outages.token
        where
            orders.state <> 'rejected'
            and outages.retries is null
            and lines.problem is null
    ) as charges
) as found
union all
-- The event about each shipment reached both subscribers once: Sales has closed the order (it refuses to do so
-- twice), and Billing has written one invoice, over what was paid. Checked: shipments. Wrong: those with another
-- number of either.
select
    11 as place,
    'both_subscribers' as name,
    'Each shipment was announced to Sales and Billing, once each' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (where heard.closed <> 1 or heard.invoices <> 1) as wrong,
        min(format('%s: closed %s times, %s invoices', heard.order_id, heard.closed, heard.invoices))
            filter (where heard.closed <> 1 or heard.invoices <> 1) as example
    from (
        select
            shipments.order_id,
            (
                select count(*)
                from rowbus_demo.orders
                where
                    orders.order_id = shipments.order_id
                    and orders.state = 'shipped'
            ) + (
                select count(*)
                from rowbus_demo.failures
                where
                    failures.order_id = shipments.order_id
                    and failures.message_type = 'Shop.OrderShipped'
            ) as closed,
            coalesce(written.invoices, 0) as invoices
        from rowbus_demo.shipments
        left join (
            select
                invoices.order_id,
                -- an invoice over another amount counts double, so that it is found
                sum(
                    case
                        when (orders.amount, orders.currency) = (invoices.amount, invoices.currency) then 1
                        else 2
                    end
                ) as invoices
            from rowbus_demo.invoices
            left join rowbus_demo.orders on invoices.order_id = orders.order_id
            group by invoices.order_id
        ) as written on shipments.order_id = written.order_id
    ) as heard
) as found
union all
-- The process of each order that has not ended by then looks once when its payment is due, not too early, and the
-- customer was reminded if the order was not paid by then. Checked: orders that were placed, and reminders of others.
-- Wrong: those where one of these is not so, and those without a look that must have had one: they were put back when no
-- message waited any more, or have not ended at all.
select
    12 as place,
    'reminders' as name,
    'Each order unpaid when due has one reminder, no other has any' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (
            where looks.number not between looks.fewest and looks.most or looks.mistaken
        ) as wrong,
        min(format('%s: looked at %s times, reminded: %s', looks.order_id, looks.number, looks.sent))
            filter (where looks.number not between looks.fewest and looks.most or looks.mistaken) as example
    from (
        select
            order_id,
            count(reminders.at) as number,
            bool_or(reminders.sent) as sent,
            count(distinct orders.placed_at) as most,
            (
                bool_and(orders.finished_at is null)
                or order_id in (select put_back.order_id from rowbus_demo.put_back)
            )::integer as fewest,
            coalesce(
                bool_or(
                    reminders.at < orders.placed_at + :'due_after'::interval
                    or reminders.sent
                    <> (coalesce(orders.paid_at, orders.finished_at, 'infinity') > reminders.at)
                ), false
            ) as mistaken
        from rowbus_demo.orders
        full join rowbus_demo.reminders using (order_id)
        where
            orders.state is distinct from 'rejected'
            or reminders.at is not null
        group by order_id
    ) as looks
) as found
union all
-- A process has a row as long as its order has not ended, and waits for what its order says: for the payment of an order
-- that is placed, for the shipment of one that is paid. No timeout waits any more. Checked: orders, and processes of no
-- order. Wrong: a row of an order that has ended, or that is of no order; an order that has not ended without its row, or
-- with one that says otherwise.
select
    13 as place,
    'processes' as name,
    'Each order process has ended or waits as its order says' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (where processes.waits is distinct from processes.should_wait) as wrong,
        min(format('%s waits for %s, not %s', processes.id, processes.waits, processes.should_wait))
            filter (where processes.waits is distinct from processes.should_wait) as example
    from (
        select
            coalesce(orders.order_id, sagas.correlation) as id,
            case orders.state
                when 'placed' then 'payment'
                when 'paid' then 'shipment'
            end as should_wait,
            case
                when sagas.timeouts <> '[]' then 'a timeout'
                when sagas.state -> 'paid' = 'true' then 'shipment'
                when sagas.correlation is not null then 'payment'
            end as waits
        from rowbus_demo.orders
        full join rowbus_demo."Sales.OrderProcess" as sagas on orders.order_id = sagas.correlation
    ) as processes
) as found
union all
-- Questions with a time to be received were answered once and in time, or not at all. Checked: questions asked.
-- Wrong: those answered twice, or after they had expired.
select
    14 as place,
    'estimates_in_time' as name,
    'Questions were answered once and in time, or not at all' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (where questions.answers > 1 or questions.late) as wrong,
        min(questions.order_id) filter (where questions.answers > 1 or questions.late) as example
    from (
        select
            lines.order_id,
            count(estimates.order_id) as answers,
            coalesce(bool_or(estimates.answered_at >= lines.read_at + :'wanted_for'::interval), false) as late
        from rowbus_demo.lines
        left join rowbus_demo.estimates on lines.order_id = estimates.order_id
        where
            lines.express
            and lines.problem is null
        group by lines.order_id
    ) as questions
) as found
union all
-- The books that were kept from the log agree with the payments, in every currency. Checked: currencies.
select
    15 as place,
    'books_revenue' as name,
    'The books kept from the log have the revenue of the payments' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (where booked.total is distinct from collected.total) as wrong,
        min(format('%s: booked %s, collected %s', currency, booked.total, collected.total))
            filter (where booked.total is distinct from collected.total) as example
    from (
        select
            currency,
            (payments, amount) as total
        from rowbus_demo.revenue
        where payments <> 0
    ) as booked
    full join (
        select
            currency,
            (count(*), sum(amount)) as total
        from rowbus_demo.payments
        where state = 'charged'
        group by currency
    ) as collected using (currency)
) as found
union all
-- The books that were kept from the log agree with the orders, in every state. Checked: orders.
select
    16 as place,
    'books_orders' as name,
    'The books kept from the log have every order in its state' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        coalesce(sum(counted.orders), 0)::bigint as checked,
        count(*) filter (where booked.orders is distinct from counted.orders) as wrong,
        min(format('%s: booked %s, there are %s', state, booked.orders, counted.orders))
            filter (where booked.orders is distinct from counted.orders) as example
    from (
        select
            state,
            orders
        from rowbus_demo.order_states
        where orders <> 0
    ) as booked
    full join (
        select
            state,
            count(*) as orders
        from rowbus_demo.orders
        group by state
    ) as counted using (state)
) as found
union all
-- No message is left over. Checked: the queues of the three endpoints, and where they keep messages for later.
-- Wrong: those with a message.
select
    17 as place,
    'queues_empty' as name,
    'No message is left in a queue' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (where queues.messages > 0) as wrong,
        min(format('%s in %s', queues.messages, queues.name)) filter (where queues.messages > 0) as example
    from (
        values
        ('Sales', (select count(*) from rowbus_demo."Sales")),
        ('Billing', (select count(*) from rowbus_demo."Billing")),
        ('Shipping', (select count(*) from rowbus_demo."Shipping")),
        ('Sales.Delayed', (select count(*) from rowbus_demo."Sales.Delayed")),
        ('Billing.Delayed', (select count(*) from rowbus_demo."Billing.Delayed")),
        ('Shipping.Delayed', (select count(*) from rowbus_demo."Shipping.Delayed"))
    ) as queues (name, messages)
) as found
order by place
