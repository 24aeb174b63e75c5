-- Let a role keep delayed messages in a store's table and take them out again; UPDATE also counts failures.
-- For the table's owner to run, once, in the table's catalog; locks the catalogue's rows; returns nothing.
grant select, insert, update, delete on [$(schema)].[$(store)] to [$(role)];
