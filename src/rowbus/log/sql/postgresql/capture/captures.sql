-- List the row triggers that write changes of tables to logs: those of all logs, or of one.
-- Locks nothing. Returns a row a trigger, in the order of `Capture` in log/catalog.py.
select
    status.queue_name,
    status.table_id::regclass::text as table_name,
    status.trigger_name,
    status.format,
    -- A slice keeps its bounds in some versions; what is read is a plain list.
    array(select argument.value from unnest(status.arguments) as argument (value)) as arguments,
    status.generated
from pgq.capture_status as status
where :'log'::text is null or status.queue_name = :'log'::text
order by status.queue_name, table_name, status.trigger_name
