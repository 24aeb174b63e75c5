-- Say whether an event's time to be delivered again has come. Locks nothing; returns one boolean.
select exists(
    select from pgq.retry_queue as r
    where r.ev_retry_after <= now()
) as due
