-- Count the blocks of a queue's table.
-- Locks nothing; returns one row with one number.
select (pg_relation_size(:'name'::text::regclass) / current_setting('block_size')::bigint)::bigint
