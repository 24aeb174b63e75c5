-- Find which of the newest messages of some queues hold one of the texts, in their headers or, as bytes, in their bodies.
-- Bodies above `most_bytes` are not looked into. Positions are read first, by their index alone.
-- Locks nothing; returns one row, with an array of at most `most` positions for each queue, the newest.
select
    /* each */
    array(
        select message.seq
        from :"schema".:"queue" as message
        where message.seq = any(array(
            select newest.seq
            from :"schema".:"queue" as newest
            order by newest.seq desc
            limit :'looked_at'::integer
        ))
        and (
            exists (
                select from unnest(:'texts'::text[]) as wanted (text)
                where position(wanted.text in message.headers) > 0
            )
            or (
                octet_length(message.body) <= :'most_bytes'::integer
                and exists (
                    select from unnest(:'fragments'::bytea[]) as wanted (fragment)
                    where position(wanted.fragment in message.body) > 0
                )
            )
        )
        order by message.seq desc
        limit :'most'::integer
    )
    /* end */
