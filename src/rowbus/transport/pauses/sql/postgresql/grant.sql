-- Let a role pause and resume.
-- For the table's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, insert, update, delete on table :"schema".:"pauses" to :"role"
