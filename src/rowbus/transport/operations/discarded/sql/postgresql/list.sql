-- List what can be brought back, by operation and queue, the latest first.
-- Locks nothing; returns operation, queue, how many messages, and when the last of them was discarded.
select
    kept.operation,
    kept.queue,
    count(*)::integer as messages,
    max(kept.discarded) as at
from :"schema".:"discarded" as kept
where kept.discarded >= now() - make_interval(days => :'days'::integer)
group by kept.operation, kept.queue
order by max(kept.discarded) desc
limit :'most'::integer
