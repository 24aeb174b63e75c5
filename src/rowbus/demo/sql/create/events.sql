-- Show the demo's log as one view, whatever number it has, so that the archive can be compared with it.
-- Locks nothing; returns nothing.
do $view$
begin
    execute (
        select format('create view rowbus_demo.events as select * from %s', queue_data_pfx)
        from pgq.queue
        where queue_name = 'rowbus_demo'
    );
end
$view$
