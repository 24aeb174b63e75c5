-- Drop one queue table with all its messages.
-- Takes an exclusive lock on the table and waits for open transactions on it; returns nothing.
drop table if exists [$(catalog)].[$(schema)].[$(queue)];
