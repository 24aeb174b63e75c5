-- Let a role begin, find, write and delete sagas of .NET's table, and nothing else.
-- For the table's owner to run, once, in the table's catalog; locks the catalogue's rows; returns nothing.
grant select, insert, update, delete on [$(schema)].[$(shared_saga)] to [$(role)];
