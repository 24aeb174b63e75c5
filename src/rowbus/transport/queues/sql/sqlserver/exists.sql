-- Say whether the queue's table exists and can be seen by this login.
-- Locks nothing, but waits for a transaction that is creating or dropping it; returns one row with 1 or 0.
select case when object_id(N'$(queue_name)', N'U') is null then 0 else 1 end as is_there;
