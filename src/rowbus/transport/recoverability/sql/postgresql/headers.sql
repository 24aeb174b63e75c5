-- Read the headers of these rows, to send them elsewhere with others; rows never change, so they are those of the moment of
-- sending. Locks nothing; returns id, seq, headers of each that is there and has at most `most_bytes` of them, in order.
select
    message.id::text as id,
    message.seq,
    message.headers
from :"schema".:"queue" as message
where
    message.id = any(:'row_ids'::uuid[])
    and octet_length(message.headers) <= :'most_bytes'::integer
order by message.seq
