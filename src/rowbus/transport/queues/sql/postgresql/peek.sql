-- Look at the oldest messages without taking them, those in a receiver's hands included.
-- Locks nothing; returns id, expires, headers, body, seq of at most `most` messages, oldest first, of headers and body their
-- beginning, up to `most_read` characters and bytes, and the size of a body that was cut.
select
    message.id::text as id,
    case
        when message.expires < '0001-01-02' then timestamp '0001-01-02'
        when message.expires > '9999-12-31' then timestamp '9999-12-31' else message.expires
    end at time zone 'UTC' as expires,
    left(message.headers, :'most_read'::integer) as headers,
    substring(message.body for :'most_read'::integer) as body,
    message.seq,
    case
        when octet_length(message.body) > :'most_read'::integer then octet_length(message.body)
    end as cut_from
from :"schema".:"queue" as message
order by message.seq
limit :'most'::integer
