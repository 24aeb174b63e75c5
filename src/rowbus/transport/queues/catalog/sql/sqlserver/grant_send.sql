-- Let a role send to a queue, and nothing else.
-- For whoever owns the queue to run, once, in the queue's catalog; locks the catalogue's rows; returns nothing.
grant insert on [$(schema)].[$(queue)] to [$(role)];
