-- Let a role count, look at and judge the messages of a queue, and change nothing. SELECT on the sequence is for
-- `rowbus doctor`. For the owner of the queue to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select on table :"schema".:"queue" to :"role";
grant select on sequence :"schema".:"sequence" to :"role"
