-- Say whether a table (a queue's or another) exists and can be seen by this role.
-- Locks nothing; returns one row with one boolean.
select to_regclass(:'table_name'::text) is not null
