-- Ask for the end of running work, by the id of its message; the process that has it sees that within a second.
-- Locks the rows; the row count is the answer.
update :"schema".:"running"
set
    cancelled_by = :'by'::text,
    cancelled_why = :'why'::text
where headers::jsonb ->> 'NServiceBus.MessageId' = :'message_id'::text or id::text = :'message_id'::text
