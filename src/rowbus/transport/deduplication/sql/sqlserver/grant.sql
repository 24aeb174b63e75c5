-- Let a role note and forget messages, and nothing else.
-- For whoever owns the table to run, once, in the table's catalog; locks the catalogue's rows; returns nothing.
grant select, insert, update, delete on [$(schema)].[$(inbox)] to [$(role)];
