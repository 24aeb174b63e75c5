-- Let a role look up subscribers, subscribe and unsubscribe, and nothing else.
-- For whoever owns the table to run, once, in the table's catalog; locks the catalogue's rows; returns nothing.
grant select, insert, update, delete on [$(schema)].[$(table)] to [$(role)];
