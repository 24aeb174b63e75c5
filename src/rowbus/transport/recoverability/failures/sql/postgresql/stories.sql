-- Read the stories of the messages at these positions, those in flight included.
-- Locks nothing; returns id, seq and headers of each that is still there; of headers above `most_bytes` not the text but
-- their size, which is null for the others.
select
    message.id::text as id,
    message.seq,
    case when octet_length(message.headers) <= :'most_bytes'::integer then message.headers end as headers,
    case
        when octet_length(message.headers) > :'most_bytes'::integer then octet_length(message.headers)
    end as size
from :"schema".:"queue" as message
where message.seq = any(:'positions'::integer[])
