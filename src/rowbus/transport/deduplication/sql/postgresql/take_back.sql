-- Take back what was noted of one message, which was not processed after all.
-- Locks the row it deletes; returns nothing.
delete from :"schema".:"inbox" as known
where known.message_key = :'message_key'::text
