-- Keep everybody from a queue or a lane until the transaction ends.
-- Takes an exclusive lock on the table, and waits for those that use it; returns nothing.
lock table :"schema".:"queue" in access exclusive mode
