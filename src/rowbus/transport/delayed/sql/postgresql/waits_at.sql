-- Say whether a message whose time is known waits: the one with this id in its headers that is due at this instant, or
-- within the ten milliseconds after it that databases may round up by.
-- Finds it by the index of times. Locks nothing; returns one row with one boolean.
select exists(
    select
    from :"schema".:"delayed" as waiting
    where
        waiting.due between :'at'::timestamptz and :'at'::timestamptz + interval '10 milliseconds'
        and (
            strpos(waiting.headers, '"NServiceBus.MessageId":' || :'quoted_id'::text) > 0
            or strpos(waiting.headers, '"NServiceBus.MessageId": ' || :'quoted_id'::text) > 0
        )
) as waits
