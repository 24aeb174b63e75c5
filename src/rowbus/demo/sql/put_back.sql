-- Mend the banks that are down until they are mended, and note the messages that are then put back: the charges in the
-- error queue that failed because of them. Locks the banks' rows; returns nothing.
update rowbus_demo.outages
set mended_at = clock_timestamp()
where retries is null;

insert into rowbus_demo.put_back (order_id)
select failures.order_id
from rowbus_demo.failures
where split_part(failures.exception, '.', -1) = 'GatewayDownError';
