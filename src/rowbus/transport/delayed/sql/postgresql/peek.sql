-- Look at the messages that are due next, without taking them.
-- Locks nothing; returns id, due, headers and size of the body of at most `most` messages, in the order of their time.
select
    message.id::text as id,
    least(greatest(message.due, '0001-01-02 00:00+00'), '9999-12-31 00:00+00') as due,
    left(message.headers, 1048576) as headers,
    coalesce(octet_length(message.body), 0) as size
from :"schema".:"delayed" as message
order by message.due
limit :'most'::integer
