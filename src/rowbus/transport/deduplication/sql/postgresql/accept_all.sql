-- Note that several messages are being processed, but for those that were before; no key may be there twice.
-- Waits for transactions that have just noted one of them and have not ended; locks the rows it writes, in the order of
-- their keys, so that no two of these wait for each other. Returns the key of each message that is new.
insert into :"schema".:"inbox" (message_key)
select message.message_key
from unnest(:'message_keys'::text[]) as message (message_key)
order by message.message_key
on conflict (message_key) do nothing
returning message_key
