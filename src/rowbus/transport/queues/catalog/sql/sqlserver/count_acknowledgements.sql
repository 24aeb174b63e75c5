-- Say how many messages of an error queue are no failures, but tell ServiceControl that a retry was processed. Looks at up
-- to `most` messages, and passes over those in hand.
-- Keeps no lock; returns one number.
declare @most int = N'$(most)';

select count(*) as acknowledgements
from (
    select top(@most) Headers
    from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
) as looked_at
where Headers like N'%"ServiceControl.Retry.Successful"%';
