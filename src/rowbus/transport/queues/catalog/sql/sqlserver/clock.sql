-- Say what time it is by the server's clock, in UTC.
-- Locks nothing; returns one row with one time.
select cast(sysutcdatetime() as datetime) as at;
