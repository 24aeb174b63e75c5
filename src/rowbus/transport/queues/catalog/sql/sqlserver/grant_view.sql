-- Let a role count, look at and judge the messages of a queue, or the rows of another table, and change nothing.
-- For the owner of the table to run, once, in its catalog; locks the catalogue's rows; returns nothing.
grant select on [$(schema)].[$(queue)] to [$(role)];
