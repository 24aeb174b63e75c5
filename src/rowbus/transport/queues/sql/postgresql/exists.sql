-- Say whether the queue's table exists and can be seen by this role.
-- Locks nothing; returns one row with one boolean.
select to_regclass(:'queue_name'::text) is not null
