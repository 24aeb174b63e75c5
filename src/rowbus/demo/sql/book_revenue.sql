-- Add what was collected in a currency, or take it off.
-- Locks the currency's row; returns nothing.
insert into rowbus_demo.revenue as booked (currency, payments, amount)
values (:'currency', :'payments', :'amount')
on conflict (currency) do update
    set
        payments = booked.payments + excluded.payments,
        amount = booked.amount + excluded.amount
