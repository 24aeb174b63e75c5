-- Let a role send to a queue, and nothing else: not choose a message's place. Who may give `seq` can take the next ones in a
-- transaction left open, for whose end every other sender waits; so what earlier versions granted, the whole table, is
-- revoked. USAGE on the sequence is for the default of `seq`.
-- For the queue's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
revoke insert on table :"schema".:"queue" from :"role";
grant insert (id, expires, headers, body) on table :"schema".:"queue" to :"role";
grant usage on sequence :"schema".:"sequence" to :"role"
