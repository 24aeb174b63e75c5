-- Have the session's times in UTC, whatever the server or the role prefers.
-- Locks nothing; returns one row with one text.
select set_config('timezone', 'UTC', false)
