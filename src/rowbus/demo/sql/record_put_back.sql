-- Note which messages are put back: those in the error queue with an exception of this name.
-- Locks no row that exists; returns nothing.
insert into rowbus_demo.put_back (order_id)
select failures.order_id
from rowbus_demo.failures
where split_part(failures.exception, '.', -1) = :'exception'::text
