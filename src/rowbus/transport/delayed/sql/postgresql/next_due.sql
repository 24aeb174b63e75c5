-- Say in how many seconds the next message is due, by the database's clock; not positive: one is due now, be it in
-- the hands of another mover. Locks nothing; returns one row with one number, no row when there is no message.
select (extract(epoch from waiting.due) - extract(epoch from clock_timestamp()))::double precision as seconds
from :"schema".:"delayed" as waiting
order by waiting.due
limit 1
