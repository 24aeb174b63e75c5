-- Let a role send unique messages to a queue: claim values, and lock, replace and postpone the messages that wait. UPDATE of
-- a queue's ids is for `for update`: none is ever changed.
-- For the tables' owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, insert, update, delete on table :"schema".:"claims" to :"role";
grant select (id, expires), update (id), delete on table :"schema".:"queue" to :"role";
grant select (id, due), update (due), delete on table :"schema".:"delayed" to :"role"
