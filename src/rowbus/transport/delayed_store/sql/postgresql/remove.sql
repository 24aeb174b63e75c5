-- Let go of a message that was sent.
-- Locks its row, and waits for whoever has it in hand; the row count says whether it was there.
delete from :"schema".:"store" as delayed
where delayed.id = :'message_id'::varchar
