-- Mend tables of an older schema, and write the insert functions of the queues there are, and with them
-- insert_event_raw() itself (see _generate_dispatch.sql).
-- Locks pgq.queue and pgq.subscription if there is something to mend; returns nothing.
do $$
begin
    perform pgq.upgrade_schema();
end;
$$;
