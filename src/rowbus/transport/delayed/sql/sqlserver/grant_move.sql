-- Let a role delay messages in a table and move them when they are due; it also needs to be let send to their queues.
-- For the table's owner to run, once, in the table's catalog; locks the catalogue's rows; returns nothing.
grant select, insert, update, delete on [$(schema)].[$(delayed)] to [$(role)];
