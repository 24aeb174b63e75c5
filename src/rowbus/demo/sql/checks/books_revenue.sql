-- The books that were kept from the log agree with the payments, in every currency. Checked: currencies.
-- Locks nothing; returns one row: checked, wrong, an example.
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
