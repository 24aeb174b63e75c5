-- Ask for the end of running work, by the id of its message, as JSON; who has it sees that within a second.
-- Who asked first is kept. Locks the rows; returns who asked, a row each.
update :"schema".:"running"
set
    cancelled_by = coalesce(cancelled_by, :'by'::text),
    cancelled_why = coalesce(cancelled_why, :'why'::text)
where
    strpos(headers, '"NServiceBus.MessageId":' || :'quoted_id'::text) > 0
    or strpos(headers, '"NServiceBus.MessageId": ' || :'quoted_id'::text) > 0
    or '"' || id::text || '"' = :'quoted_id'::text
returning cancelled_by
