-- Say where messages of the queue are, those in flight included, the newest first: the index by position answers it.
-- Locks nothing; returns one row with an array of at most `most` positions.
select array(
    select message.seq
    from :"schema".:"queue" as message
    order by message.seq desc
    limit :'most'::integer
) as positions
