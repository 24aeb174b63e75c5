-- Give a message other headers, and no time to be received, where it is: its place in the queue stays.
-- Locks the row and passes over one in flight, so it never waits. Returns how many there were, 1 or 0.
update :"schema".:"queue" as message
set
    headers = :'headers'::text,
    expires = case when :'keeps_expiry'::boolean then message.expires end
where message.id = (
    select waiting.id
    from :"schema".:"queue" as waiting
    where waiting.id = :'row_id'::uuid and waiting.seq = :'position'::integer
    for update skip locked
)
