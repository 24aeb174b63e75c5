-- Drop one queue table with whatever messages are in it.
-- Takes an exclusive lock on the table and waits for open transactions on it; returns nothing.
drop table if exists [$(catalog)].[$(schema)].[$(queue)];
