-- Let a role send to a queue, and nothing else. USAGE on the sequence is for the default of `seq`.
-- For the queue's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant insert on table :"schema".:"queue" to :"role";
grant usage on sequence :"schema".:"sequence" to :"role"
