-- Find what others did to the same queue while an operation ran; what runs and was not heard of for an hour was killed.
-- Locks nothing; returns the columns of the table in their order, the latest first, at most a hundred.
select
    other.id,
    other.person,
    other.action,
    other.queue,
    other.subject,
    other.meant,
    other.done,
    other.stayed,
    other.state,
    other.result,
    other.began,
    other.noted
from :"schema".:"operations" as mine
inner join :"schema".:"operations" as other
    on mine.queue = other.queue
    and mine.id <> other.id
where mine.id = :'id'::text
    and other.noted >= mine.began
        - case when other.state in ('running', 'stopping') then interval '1 hour' else interval '0' end
order by other.began desc
limit 100
