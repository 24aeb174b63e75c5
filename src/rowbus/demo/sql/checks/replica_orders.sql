-- The replica of the table orders has every row once, equal in every column, and no other. Checked: rows.
-- Locks nothing; returns one row: checked, wrong, an example.
select
    count(*) as checked,
    count(*) filter (where counted.here <> 1 or counted.there <> 1) as wrong,
    min(format('%s times here, %s times in the replica: %s', counted.here, counted.there, counted.content))
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
