-- Note that a message is being processed, unless it was before.
-- Waits for a transaction that has just noted the same and has not ended; locks the row it writes. Returns one row
-- if the message is new, none if it is not.
insert into :"schema".:"inbox" (message_key)
values (:'message_key'::text)
on conflict (message_key) do nothing
returning true
