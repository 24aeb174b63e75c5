-- Let a role keep, read and sweep values, and nothing else.
-- For the table's owner to run, once, in the table's catalog; locks the catalogue's rows; returns nothing.
grant select, insert, delete on [$(schema)].[$(claimed)] to [$(role)];
