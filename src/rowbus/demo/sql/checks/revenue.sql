-- The books agree in every currency: what Sales has sold is what Billing has collected. Checked: currencies.
-- Locks nothing; returns one row: checked, wrong, an example.
select
    count(*) as checked,
    count(*) filter (where sold.amount is distinct from collected.amount) as wrong,
    min(format('%s: sold %s, collected %s', currency, sold.amount, collected.amount))
        filter (where sold.amount is distinct from collected.amount) as example
from (
    select
        currency,
        sum(amount) as amount
    from rowbus_demo.orders
    where state in ('paid', 'shipped')
    group by currency
) as sold
full join (
    select
        currency,
        sum(amount) as amount
    from rowbus_demo.payments
    where state = 'charged'
    group by currency
) as collected using (currency)
