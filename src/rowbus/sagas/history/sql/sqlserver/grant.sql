-- Let a role write, read and sweep what a saga did, and nothing else.
-- For the table's owner to run, once, in the table's catalog; locks the catalogue's rows; returns nothing.
grant select, insert, update, delete on [$(schema)].[$(history)] to [$(role)];
