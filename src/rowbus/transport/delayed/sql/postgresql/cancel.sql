-- Cancel a message that waits to become due: the one with this id in its headers, as compact or spaced JSON. One that
-- waits for its next delayed retry has been delivered before, and stays.
-- Reads the whole table: headers have no index. Locks the rows it deletes, waiting for a mover that is moving one of them:
-- what that has moved is not there any more. The row count is the answer.
delete from :"schema".:"delayed" as waiting
where
    (
        strpos(waiting.headers, '"NServiceBus.MessageId":' || :'quoted_id'::text) > 0
        or strpos(waiting.headers, '"NServiceBus.MessageId": ' || :'quoted_id'::text) > 0
    )
    and strpos(waiting.headers, '"NServiceBus.Retries"') = 0
