-- Say when a message stored now would be due: at an instant, or so many seconds from now by the database's clock.
-- Locks nothing; returns one row with one time.
select coalesce(:'at'::timestamptz, clock_timestamp() + :'delay'::double precision * interval '1 second')
