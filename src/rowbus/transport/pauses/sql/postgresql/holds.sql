-- Say which of some things are paused.
-- Locks nothing; returns kind and name of each.
select
    pause.kind,
    pause.name
from :"schema".:"pauses" as pause
inner join unnest(:'kinds'::text[], :'names'::text[]) as asked (kind, name)
    on
        pause.kind = asked.kind
        and pause.name = asked.name
where pause.until is null or pause.until > now()
