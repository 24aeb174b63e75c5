-- Send messages of a lane, or of the queue itself, to the queue anew, in their order: if it has a trigger, that puts them
-- into their lanes. `all` of them, or those that have the header. To run while nobody else uses the tables.
-- Locks the rows it deletes; returns how many they were.
with taken as (
    delete from :"schema".:"lane" as message
    where :'all'::boolean or strpos(message.headers, '"' || :'header'::text || '"') > 0
    returning message.id, message.expires, message.headers, message.body, message.seq
),

sent as (
    insert into :"schema".:"queue" (id, expires, headers, body)
    select
        taken.id,
        taken.expires,
        taken.headers,
        taken.body
    from taken
    order by taken.seq
)

select count(*)::integer as moved
from taken
