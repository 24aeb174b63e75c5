-- Look at one message without taking it, in the hands of a mover or not.
-- Locks nothing; returns id, due, headers, the first `most_bytes` bytes of the body and the size of all of it, or no row.
select
    waiting.id::text as id,
    least(greatest(waiting.due, '0001-01-02 00:00+00'), '9999-12-31 00:00+00') as due,
    left(waiting.headers, 1048576) as headers,
    substring(waiting.body from 1 for :'most_bytes'::integer) as body,
    coalesce(octet_length(waiting.body), 0) as size
from :"schema".:"delayed" as waiting
where waiting.id = :'row_id'::uuid
