-- Look at the messages of a store that are due next, without taking them.
-- Locks nothing; returns id, due time, destination, headers, size of the body and failures counted of at most `most`
-- messages, in the order of their time.
select
    delayed.id,
    least(greatest(delayed.time, '0001-01-02 00:00+00'), '9999-12-31 00:00+00') as due,
    delayed.destination,
    substring(delayed.headers from 1 for 1048576) as headers,
    octet_length(delayed.state) as size,
    delayed.retry_count as failures
from :"schema".:"store" as delayed
order by delayed.time, delayed.id
limit :'most'::integer
