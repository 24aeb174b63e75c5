-- Put several events into a log, in the order of the arrays.
-- Locks no row; returns their ids, a row each.
select inserted.id
from
    pgq.insert_events(
        :'log'::text,
        :'types'::text[],
        :'datas'::text[],
        :'extra1s'::text[],
        :'extra2s'::text[],
        :'extra3s'::text[],
        :'extra4s'::text[]
    ) as inserted (id)
