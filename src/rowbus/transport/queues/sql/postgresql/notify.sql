-- Wake the receivers of several queues once the transaction commits.
-- Locks no row (the server serialises commits that notify); returns one empty row a channel.
select pg_notify(channel, '')
from unnest(:'channels'::text[]) as channel
