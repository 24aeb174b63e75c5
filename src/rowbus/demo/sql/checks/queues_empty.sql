-- No message is left over. Checked: the queues of the three endpoints. Wrong: those with a message.
-- Locks nothing; returns one row: checked, wrong, an example.
select
    count(*) as checked,
    count(*) filter (where queues.messages > 0) as wrong,
    min(format('%s in %s', queues.messages, queues.name)) filter (where queues.messages > 0) as example
from (
    select
        'Sales' as name,
        count(*) as messages
    from rowbus_demo."Sales"
    union all
    select
        'Billing' as name,
        count(*) as messages
    from rowbus_demo."Billing"
    union all
    select
        'Shipping' as name,
        count(*) as messages
    from rowbus_demo."Shipping"
) as queues
