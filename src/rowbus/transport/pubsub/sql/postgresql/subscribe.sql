-- Subscribe an endpoint to topics, or say where its copies go from now on; what says so already is left alone.
-- Locks the rows it writes, in the order of the topics, waiting for others who write them; the row count is the answer.
insert into :"schema".:"table" as known (queueaddress, endpoint, topic)
select
    :'queue_address'::text,
    :'endpoint'::text,
    wanted.topic
from unnest(:'topics'::text[]) as wanted (topic)
order by wanted.topic
on conflict (endpoint, topic) do update
set queueaddress = excluded.queueaddress
where known.queueaddress <> excluded.queueaddress
