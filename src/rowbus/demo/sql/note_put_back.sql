-- Note the messages that are to be put back: the charges in the error queue that failed because of a bank that was down.
-- Locks nothing; returns a row for each: its order.
insert into rowbus_demo.put_back (order_id)
select failures.order_id
from rowbus_demo.failures
where split_part(failures.exception, '.', -1) = 'GatewayDownError'
returning order_id
