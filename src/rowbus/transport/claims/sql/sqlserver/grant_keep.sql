-- Let a role keep values, for messages that it sends, and nothing else: it reads none.
-- For the table's owner to run, once, in the table's catalog; locks the catalogue's rows; returns nothing.
grant insert on [$(schema)].[$(claimed)] to [$(role)];
