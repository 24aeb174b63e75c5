-- Append the rows of a stage to a log, in their order, a thousand at a time; for roles that may not write to its tables.
-- Locks nothing but the rows it writes; returns their ids.
select inserted.id
from (
    select
        array_agg(s.c2 order by s.position) as types,
        array_agg(s.c3 order by s.position) as datas,
        array_agg(s.c4 order by s.position) as extra1s,
        array_agg(s.c5 order by s.position) as extra2s,
        array_agg(s.c6 order by s.position) as extra3s,
        array_agg(s.c7 order by s.position) as extra4s
    from (
        select
            staged.*,
            row_number() over () as position
        from rowbus_spark.:"stage" as staged
        where :'only'::text is null or staged.c1 = :'only'::text
    ) as s
    group by (s.position - 1) / 1000
    order by (s.position - 1) / 1000
) as chunk
cross join lateral pgq.insert_events(
    :'log', chunk.types, chunk.datas, chunk.extra1s, chunk.extra2s, chunk.extra3s, chunk.extra4s
) as inserted (id)
