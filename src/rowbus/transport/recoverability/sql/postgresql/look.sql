-- Look at one row without taking it, also when it is in flight.
-- Locks nothing; returns id, expires, headers, body, seq of at most one message, of headers and body their beginning, up
-- to `most_read` characters and bytes, and the size of a body that was cut.
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
where message.id = :'row_id'::uuid
