-- Read the stories of the next messages of a walk through the queue, those in somebody's hands included.
-- Locks nothing; returns id, seq and headers of at most `most` messages after one position and up to another, in order.
select
    message.id::text as id,
    message.seq,
    message.headers
from :"schema".:"queue" as message
where message.seq > :'after'::integer
    and message.seq <= :'newest'::integer
order by message.seq
limit :'most'::integer
