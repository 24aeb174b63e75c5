-- Let a role measure how long a queue is, as ServiceControl's monitoring does, which locks the rows that it looks at:
-- UPDATE is for `for update`. For the queue's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, update on table :"schema".:"queue" to :"role"
