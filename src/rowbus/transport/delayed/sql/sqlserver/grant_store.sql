-- Let a role delay messages in a table that others move.
-- For whoever owns the table to run, once, in the table's catalog; locks the catalogue's rows; returns nothing.
grant insert on [$(schema)].[$(delayed)] to [$(role)];
