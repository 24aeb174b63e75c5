-- No message is left over. Checked: the queues of the three endpoints, and where they keep messages for later. Wrong:
-- those with a message.
-- Locks nothing; returns one row: checked, wrong, an example.
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
