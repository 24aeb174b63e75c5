-- Find which of the messages at these positions hold one of the texts, in their headers or, as bytes, in their bodies.
-- Bodies above `most_bytes` are not looked into.
-- Locks nothing; returns one row with an array of positions.
select array(
    select message.seq
    from :"schema".:"queue" as message
    where message.seq = any(:'positions'::integer[])
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
) as positions
