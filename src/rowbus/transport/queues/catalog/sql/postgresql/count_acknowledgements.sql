-- Say how many messages of an error queue are no failures, but tell ServiceControl that a retry was processed. Looks at up
-- to `most` messages, and reads the headers of short ones only, as those of acknowledgements are.
-- Locks nothing; returns one number.
select count(*)::integer
from (
    select message.headers
    from :"schema".:"queue" as message
    order by message.seq
    limit :'most'::integer
) as looked_at
where
    pg_column_size(looked_at.headers) < 2000
    and looked_at.headers like '%"ServiceControl.Retry.Successful"%'
