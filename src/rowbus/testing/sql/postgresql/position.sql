-- Say how far the record of what is sent goes.
-- Locks nothing; returns one row with one number, 0 for an empty record.
select coalesce(max(noted.position), 0) from rowbus_testing.sent as noted
