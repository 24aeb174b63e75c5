-- Have the events that wait for a retry be due now.
-- Locks the rows it changes, waiting for others who change them; returns nothing.
update pgq.retry_queue
set ev_retry_after = least(ev_retry_after, now())
