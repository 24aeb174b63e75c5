-- Let a role measure how long a queue is and what went through it, as ServiceControl does. It locks the rows that it
-- looks at: UPDATE is for `for update`. SELECT on the sequence is for its `last_value`, which the usage report counts.
-- For the queue's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, update on table :"schema".:"queue" to :"role";
grant select on sequence :"schema".:"sequence" to :"role"
