-- Return the pauses that are in force.
-- Locks nothing; returns the columns of the table in their order.
select
    pause.kind,
    pause.name,
    pause.person,
    pause.why,
    pause.began,
    pause.until
from :"schema".:"pauses" as pause
where pause.until is null or pause.until > now()
order by pause.kind, pause.name
