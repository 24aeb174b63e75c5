-- The figures of a run, as one JSON document: outcomes and failures by reason, most frequent first; the speed of orders
-- in the quiet hour and in the rush, with latencies in seconds; the load of endpoints; the books; counts of the rest.
-- Locks nothing; returns one row: the document.
with ends as (
    select
        coalesce(outcomes.outcome, 'unfinished') as outcome,
        case
            when outcomes.outcome = 'failed' then substring(outcomes.reason from '[^.]+$')
            when outcomes.outcome <> 'shipped' then outcomes.reason
        end as reason
    from rowbus_demo.lines
    left join rowbus_demo.outcomes on lines.line = outcomes.line
),

totals as (
    select
        outcome,
        reason,
        count(*) as number
    from ends
    group by
        outcome,
        reason
    order by
        count(*) desc,
        outcome asc,
        reason asc
),

-- An order's latency is from the transaction that sent it to its end. Left out are failed orders, which have no end in
-- Sales, and those whose bank was down, which waited for it. The rate is of the period as a whole.
periods as (
    select
        case when lines.rush then 'rush' else 'quiet hour' end as period,
        count(*) as orders,
        round(
            count(*) / greatest(extract(epoch from max(orders.finished_at) - min(lines.read_at)), 0.001)
        )::integer as orders_a_second,
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
),

-- The messages that each endpoint has handled, and those of the rush (of all, if there was none).
endpoints as (
    select
        handled.endpoint,
        count(*) as messages,
        round(
            count(*) filter (where handled.at >= rush.began)
            / greatest(extract(epoch from max(handled.at) - max(rush.began)), 0.001)
        )::integer as a_second_in_the_rush
    from rowbus_demo.handled
    cross join (
        select coalesce(min(read_at) filter (where rush), min(read_at)) as began
        from rowbus_demo.lines
    ) as rush
    group by handled.endpoint
    order by handled.endpoint
),

stories as (
    select
        substring(exception from '[^.]+$') as exception,
        count(*) as number,
        substring(message_type from '[^.]+$') as message,
        min(explanation) as explanation
    from rowbus_demo.failures
    group by
        endpoint,
        message_type,
        exception
    order by
        count(*) desc,
        exception
),

-- How far behind Bookkeeping was: the median, in seconds.
booked as (
    select
        coalesce(sum(events), 0)::bigint as events,
        count(*) as batches,
        coalesce(
            extract(epoch from percentile_cont(0.5) within group (order by behind)), 0
        )::double precision as behind
    from rowbus_demo.books
),

-- Charges that worked when retried at once, later, and when put back; orders that had not ended when payment was due,
-- those reminded; questions asked, those answered in time.
sidelines as (
    select
        (select count(*) from rowbus_demo.payments where attempts > 1) as retried,
        (select count(*) from rowbus_demo.payments where delayed_retries > 0) as retried_later,
        (select count(*) from rowbus_demo.put_back) as put_back,
        (select count(*) from rowbus_demo.reminders) as due,
        (select count(*) from rowbus_demo.reminders where sent) as reminded,
        (select count(*) from rowbus_demo.lines where express and problem is null) as asked,
        (select count(*) from rowbus_demo.estimates) as answered
)

select
    json_build_object(
        'outcomes', (select coalesce(json_agg(totals), '[]') from totals),
        'periods', (select coalesce(json_agg(periods), '[]') from periods),
        'endpoints', (select coalesce(json_agg(endpoints), '[]') from endpoints),
        'failures', (select coalesce(json_agg(stories), '[]') from stories),
        'sidelines', (select row_to_json(sidelines) from sidelines),
        'books', (select row_to_json(booked) from booked)
    )::text as figures
