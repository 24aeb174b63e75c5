-- Let a role publish contracts, look at them, and forget the oldest.
-- For the table's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, insert, update, delete on table :"schema".:"contracts" to :"role"
