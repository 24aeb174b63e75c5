-- Let a role send to a queue, and nothing else.
-- For the queue's owner to run, once, in the queue's catalog; locks the catalogue's rows; returns nothing.
grant insert on [$(schema)].[$(queue)] to [$(role)];
