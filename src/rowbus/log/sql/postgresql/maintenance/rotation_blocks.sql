-- List the logs whose tables could not be rotated when it was time, and why. Locks nothing.
-- Returns the log's name, since when, the reason and its detail.
select
    r.queue_name,
    r.blocked_since,
    r.reason,
    r.detail
from pgq.rotation_status as r
where r.blocked_since is not null
order by r.queue_name
