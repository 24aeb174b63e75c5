-- How each line of the file ended, from three places that know nothing of each other: what the web shop could not
-- read, what Sales has closed, and what waits in the error queue. A line may be here twice or never only if a message
-- was doubled or lost. Returns nothing.
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
    and failures.message_type <> 'Shop.EstimateDelivery'
