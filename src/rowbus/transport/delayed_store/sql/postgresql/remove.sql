-- Let go of a message that was sent.
-- Locks its row, and waits for its holder; the row count says whether it was there.
delete from :"schema".:"store" as delayed
where delayed.id = :'message_id'::varchar
