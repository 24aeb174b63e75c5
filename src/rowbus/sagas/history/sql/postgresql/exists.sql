-- Say whether the table of what a saga did exists and can be seen by this role.
-- Locks nothing; returns one row with one boolean.
select to_regclass(:'table_name'::text) is not null
