-- Let a role keep values, for messages that it sends, and nothing else: it reads none.
-- For the table's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant insert on table :"schema".:"claimed" to :"role"
