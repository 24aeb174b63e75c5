-- Count one more failure of a message.
-- Locks its row, and waits for its holder; the row count says whether it was there.
update :"schema".:"store" as delayed
set retry_count = delayed.retry_count + 1
where delayed.id = :'message_id'::varchar
