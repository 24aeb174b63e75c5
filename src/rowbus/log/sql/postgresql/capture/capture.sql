-- Have a table's changes written to a log, by a trigger.
-- Locks the table against writes. Returns the trigger's name.
select
    pgq.capture_table(
        :'table'::text::regclass,
        :'log'::text,
        :'format'::text,
        :'arguments'::text[],
        :'trigger'::text
    ) as trigger_name
