-- Questions with a time to be received were answered once and in time, or not at all. Checked: questions asked.
-- Wrong: those answered twice, or after they had expired.
-- Locks nothing; returns one row: checked, wrong, an example.
select
    count(*) as checked,
    count(*) filter (where questions.answers > 1 or questions.late) as wrong,
    min(questions.order_id) filter (where questions.answers > 1 or questions.late) as example
from (
    select
        lines.order_id,
        count(estimates.order_id) as answers,
        coalesce(bool_or(estimates.answered_at >= lines.read_at + :'wanted_for'::interval), false) as late
    from rowbus_demo.lines
    left join rowbus_demo.estimates on lines.order_id = estimates.order_id
    where
        lines.express
        and lines.problem is null
    group by lines.order_id
) as questions
