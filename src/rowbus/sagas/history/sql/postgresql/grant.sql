-- Let a role write, read and sweep what a saga did, and nothing else; `update` is for the sweep's locks.
-- For the table's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, insert, update, delete on table :"schema".:"history" to :"role"
