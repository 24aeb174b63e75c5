-- Every line of the file has ended in exactly one way. Checked: lines. Wrong: those with none, or more than one.
-- Locks nothing; returns one row: checked, wrong, an example.
select
    count(*) as checked,
    count(*) filter (where ends.number <> 1) as wrong,
    min(format('line %s has %s', ends.line, ends.number)) filter (where ends.number <> 1) as example
from (
    select
        lines.line,
        count(outcomes.line) as number
    from rowbus_demo.lines
    left join rowbus_demo.outcomes on lines.line = outcomes.line
    group by lines.line
) as ends
