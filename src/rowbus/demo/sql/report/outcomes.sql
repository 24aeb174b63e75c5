-- Count how the orders ended, by reason where there is one to tell; unfinished ones too.
-- Locks nothing; returns rows of outcome, reason (null for shipped ones), number; most frequent first.
select
    coalesce(outcomes.outcome, 'unfinished') as outcome,
    case when outcomes.outcome <> 'shipped' then outcomes.reason end as reason,
    count(*) as number
from rowbus_demo.lines
left join rowbus_demo.outcomes on lines.line = outcomes.line
group by
    1,
    2
order by
    3 desc,
    1,
    2
