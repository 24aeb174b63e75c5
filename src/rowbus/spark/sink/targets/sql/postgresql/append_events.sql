-- Append the rows of a stage to a log's current table, in their order; see events/sql/postgresql/copy.sql.
-- Locks nothing but the rows it writes; affects as many.
insert into :"schema".:"table" (ev_time, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
select
    now() as ev_time,
    s.c2 as ev_type,
    s.c3 as ev_data,
    s.c4 as ev_extra1,
    s.c5 as ev_extra2,
    s.c6 as ev_extra3,
    s.c7 as ev_extra4
from rowbus_spark.:"stage" as s
where :'only'::text is null or s.c1 = :'only'::text
