-- Let a role delay messages in a table that others move.
-- For the table's owner to run, once, in the table's catalog; locks the catalogue's rows; returns nothing.
grant insert on [$(schema)].[$(delayed)] to [$(role)];
