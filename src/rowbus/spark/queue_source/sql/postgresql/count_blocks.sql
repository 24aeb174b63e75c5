-- Say how many blocks a queue's table has now.
-- Locks nothing; returns one row with one number.
select (pg_relation_size(:'name'::text::regclass) / current_setting('block_size')::bigint)::bigint
