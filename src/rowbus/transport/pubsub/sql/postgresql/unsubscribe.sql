-- Unsubscribe an endpoint from topics.
-- Locks the rows it deletes, waiting for others who write them; returns the topics it was subscribed to.
delete from :"schema".:"table"
where
    endpoint = :'endpoint'::text
    and topic = any(:'topics'::text[])
returning topic
