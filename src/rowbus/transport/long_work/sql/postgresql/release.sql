-- Let go of running work, so that another process takes it at once; nothing is counted.
-- Locks the rows; returns nothing.
update :"schema".:"running" as released
set
    lease = null,
    process = null,
    since = null
from unnest(:'ids'::uuid[], :'epochs'::int[]) as given (id, epoch)
where released.id = given.id and released.epoch = given.epoch
