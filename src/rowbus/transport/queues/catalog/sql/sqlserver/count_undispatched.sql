-- Say how many messages that an endpoint of .NET has handled are in its outbox with what they send, not yet sent:
-- NServiceBus's table, of which nothing else is read. Counts up to `most`, and passes over rows in hand.
-- Keeps no lock; returns one number.
declare @most int = N'$(most)';

select count(*) as undispatched
from (
    select top(@most) MessageId
    from [$(catalog)].[$(schema)].[$(outbox)] with (readpast)
    where Dispatched = 0
) as waiting;
