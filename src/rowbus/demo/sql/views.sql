-- The demo's views: what becomes readable once the queues and the log are there. Locks nothing; returns nothing.

-- The error queue, readable: which message of which order failed where, when and why.
create view rowbus_demo.failures as
select
    convert_from(error.body, 'UTF8')::json ->> 'order_id' as order_id,
    error.headers::json ->> 'NServiceBus.EnclosedMessageTypes' as message_type,
    error.headers::json ->> 'NServiceBus.ProcessingEndpoint' as endpoint,
    error.headers::json ->> 'NServiceBus.ExceptionInfo.ExceptionType' as exception,
    error.headers::json ->> 'NServiceBus.ExceptionInfo.Message' as explanation
from rowbus_demo.error;

-- How each line of the file ended, from three places that know nothing of each other: what the web shop could not
-- read, what Sales has closed, and what waits in the error queue. A line may be here twice or never only if a
-- message was doubled or lost.
create view rowbus_demo.outcomes as
select
    lines.line,
    'rejected' as outcome,
    lines.problem as reason
from rowbus_demo.lines
where lines.problem is not null
union all
select
    lines.line,
    orders.state as outcome,
    orders.reason
from rowbus_demo.lines
inner join rowbus_demo.orders on lines.order_id = orders.order_id
where
    lines.problem is null
    and orders.state in ('shipped', 'declined', 'rejected')
union all
select
    lines.line,
    'failed' as outcome,
    failures.exception as reason
from rowbus_demo.lines
inner join rowbus_demo.failures on lines.order_id = failures.order_id
where
    lines.problem is null
    and failures.message_type <> 'Shop.EstimateDelivery';

-- Every message that was handled, by what its handler wrote.
create view rowbus_demo.handled as
select
    'Sales' as endpoint,
    happened.at
from
    rowbus_demo.orders,
    lateral (
        values
        (orders.placed_at),
        (orders.paid_at),
        (case when orders.state in ('shipped', 'declined') then orders.finished_at end)
    ) as happened (at)
where happened.at is not null
union all
select
    'Sales' as endpoint,
    estimates.answered_at as at
from rowbus_demo.estimates
union all
select
    'Sales' as endpoint,
    reminders.at
from rowbus_demo.reminders
union all
select
    'Billing' as endpoint,
    payments.settled_at as at
from rowbus_demo.payments
union all
select
    'Billing' as endpoint,
    invoices.written_at as at
from rowbus_demo.invoices
union all
select
    'Shipping' as endpoint,
    shipments.shipped_at as at
from rowbus_demo.shipments;

-- Show the demo's log as one view, so that the archive can be compared with it.
do $view$
begin
    execute (
        select format('create view rowbus_demo.events as select * from %s', queue_data_pfx)
        from pgq.queue
        where queue_name = 'rowbus_demo'
    );
end
$view$;
