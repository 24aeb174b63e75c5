-- Have the trigger of lanes run for every sender, those with session_replication_role = replica too.
-- Takes an exclusive lock on the queue, for the length of the transaction; returns nothing.
alter table :"schema".:"queue" enable always trigger rowbus_lane
