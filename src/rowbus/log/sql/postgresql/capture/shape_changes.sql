-- List the changes of shape that a log was told of its captured tables, the oldest first; a change that several
-- transactions told is listed once.
-- Locks nothing. Returns a row a change, in the order of `ShapeChange` in log/catalog.py.
select
    told.cs_time as told_at,
    told.cs_event as event_id,
    concat(
        told.cs_change -> 'before' -> 'table' ->> 0, '.', told.cs_change -> 'before' -> 'table' ->> 1
    ) as table_name,
    told.cs_change as change
from (
    select
        shape.*,
        lag(shape.cs_change) over (
            partition by shape.cs_table, shape.cs_trigger order by shape.cs_id
        ) as earlier
    from pgq.capture_shape as shape
    where shape.cs_queue = :'log'::text
) as told
where told.cs_change is not null and told.cs_change is distinct from told.earlier
order by told.cs_id
