-- Have what is sent to a queue stay there.
-- Takes an exclusive lock on the queue, for the length of the transaction; returns nothing.
drop trigger if exists rowbus_lane on :"schema".:"queue"
