-- Count the messages in the error queue by where and why they failed.
-- Locks nothing; returns rows of endpoint, message type, exception, one explanation, number; most frequent first.
select
    endpoint,
    message_type,
    exception,
    min(explanation) as explanation,
    count(*) as number
from rowbus_demo.failures
group by
    endpoint,
    message_type,
    exception
order by
    count(*) desc,
    exception
