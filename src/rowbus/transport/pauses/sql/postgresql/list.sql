-- Return the pauses and scales that are in force; a table that is older than scales has none of them.
-- Locks nothing; returns the columns of the table in their order.
select
    pause.kind,
    pause.name,
    pause.person,
    pause.why,
    pause.began,
    pause.until,
    (to_jsonb(pause) ->> 'amount')::integer as amount
from :"schema".:"pauses" as pause
where pause.until is null or pause.until > now()
order by pause.kind, pause.name
