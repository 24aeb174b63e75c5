-- How fast the orders went, in the quiet hour and in the rush: from the transaction that sent an order to its end.
-- Failed orders have no end in Sales and are not in it, nor are those whose bank was down, which waited for it. The rate is of the period as a whole.
-- Locks nothing; returns rows of rush, orders, seconds, and the latency in seconds: median, 95th, 99th percentile, most.
select
    lines.rush,
    count(*) as orders,
    extract(epoch from max(orders.finished_at) - min(lines.read_at))::float8 as seconds,
    percentile_disc(0.5) within group (order by ended.after) as median,
    percentile_disc(0.95) within group (order by ended.after) as p95,
    percentile_disc(0.99) within group (order by ended.after) as p99,
    max(ended.after) as most
from rowbus_demo.lines
inner join rowbus_demo.orders on lines.order_id = orders.order_id
cross join lateral (
    select extract(epoch from orders.finished_at - lines.read_at)::float8 as after
) as ended
where
    lines.problem is null
    and orders.finished_at is not null
    and not exists (
        select from rowbus_demo.outages
        where outages.token = lines.token
    )
group by lines.rush
order by lines.rush
