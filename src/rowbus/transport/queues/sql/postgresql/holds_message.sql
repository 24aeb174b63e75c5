-- Say whether a message is in the queue, also when it is in flight: one with this id in its headers, as compact or spaced
-- JSON. Any table that has a column `headers` will do.
-- Reads the whole table: headers have no index. Locks nothing; returns one row with one boolean.
select
    exists(
        select from :"schema".:"queue" as message
        where
            strpos(message.headers, '"NServiceBus.MessageId":' || :'quoted_id'::text) > 0
            or strpos(message.headers, '"NServiceBus.MessageId": ' || :'quoted_id'::text) > 0
    )
