-- Cancel a message whose time is known: the one with this id in its headers that is due at this instant, or within the ten
-- milliseconds after it that databases may round up by. One that waits for its next delayed retry is due later, and stays.
-- Finds it by the index of times. Locks the row it deletes, waiting for a mover that is moving it: what that has moved is
-- not there any more. The row count is the answer.
delete from :"schema".:"delayed" as waiting
where
    waiting.due between :'at'::timestamptz and :'at'::timestamptz + interval '10 milliseconds'
    and (
        strpos(waiting.headers, '"NServiceBus.MessageId":' || :'quoted_id'::text) > 0
        or strpos(waiting.headers, '"NServiceBus.MessageId": ' || :'quoted_id'::text) > 0
    )
    and strpos(waiting.headers, '"NServiceBus.Retries"') = 0
