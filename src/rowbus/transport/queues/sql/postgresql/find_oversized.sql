-- Find the messages above `most_bytes` among the oldest `most`: those that receives leave where they are.
-- Locks nothing. Sizes are known without reading the values.
-- Returns id, seq, the first characters of the headers, and the size of headers and body, oldest first.
with oldest as (
    select
        message.id,
        message.seq,
        message.headers,
        octet_length(message.headers)::bigint + coalesce(octet_length(message.body), 0) as size
    from :"schema".:"queue" as message
    order by message.seq
    limit :'most'::integer
)

select
    oldest.id::text as id,
    oldest.seq,
    left(oldest.headers, :'most_characters'::integer) as headers,
    oldest.size
from oldest
where oldest.size > :'most_bytes'::bigint
order by oldest.seq
