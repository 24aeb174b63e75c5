-- Set the session's time zone to UTC.
-- Locks nothing; returns one row with one text.
select set_config('timezone', 'UTC', false)
