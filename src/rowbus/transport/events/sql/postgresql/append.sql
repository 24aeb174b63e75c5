-- Put one event into a log; consumers see it with the first tick after the commit.
-- Locks no row; returns the event's id.
select
    pgq.insert_event(
        :'log'::text,
        :'type'::text,
        :'data'::text,
        :'extra1'::text,
        :'extra2'::text,
        :'extra3'::text,
        :'extra4'::text
    ) as id
