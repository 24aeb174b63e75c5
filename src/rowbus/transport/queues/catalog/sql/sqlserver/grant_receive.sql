-- Let a role receive from, peek and purge a queue, and nothing else.
-- For the queue's owner to run, once, in the queue's catalog; locks the catalogue's rows; returns nothing.
grant select, delete on [$(schema)].[$(queue)] to [$(role)];
