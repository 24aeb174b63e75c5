-- Say how many messages that an endpoint of .NET has handled are in its outbox with what they send, not yet sent:
-- NServiceBus's table, of which nothing else is read. Counts up to `most`.
-- Locks nothing; returns one number.
select count(*)::integer
from (
    select "MessageId"
    from :"schema".:"outbox"
    where not "Dispatched"
    order by "MessageId"
    limit :'most'::integer
) as waiting
