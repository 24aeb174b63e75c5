-- Put the messages of a stage into a queue, in their order; see send.sql of the queue. The row's id is never the
-- message's. Locks nothing; affects as many rows.
insert into :"schema".:"queue" (id, expires, headers, body)
select
    s.c2 as id,
    (now() at time zone 'UTC') + :'time_to_be_received'::interval as expires,
    s.c3 as headers,
    s.c4 as body
from rowbus_spark.:"stage" as s
where s.c1 = :'destination'
