-- Drop what the last run has left: replica, schema and log. Waits for programs that use them; returns nothing.
drop schema if exists rowbus_demo_replica cascade;

do $drop$
begin
    if to_regnamespace('rowbus_demo') is not null then
        drop schema rowbus_demo cascade;
        perform pgq.drop_queue(queue_name, true)
        from pgq.queue
        where queue_name = 'rowbus_demo';
    end if;
end
$drop$;
