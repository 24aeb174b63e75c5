-- Find the messages whose headers hold one of the texts, among the `looked_at` newest of the queue, those in flight
-- included: the oldest first.
-- Locks nothing; returns id, seq and headers of at most `most`.
select
    newest.id::text as id,
    newest.seq,
    newest.headers
from (
    select
        message.id,
        message.seq,
        message.headers
    from :"schema".:"queue" as message
    order by message.seq desc
    limit :'looked_at'::integer
) as newest
where octet_length(newest.headers) <= :'most_bytes'::integer
    and exists (
        select from unnest(:'texts'::text[]) as wanted (text)
        where position(wanted.text in newest.headers) > 0
    )
order by newest.seq
limit :'most'::integer
