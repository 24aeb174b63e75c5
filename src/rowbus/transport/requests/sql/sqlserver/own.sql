-- Own one queue of answers for as long as this session lasts; it need not exist yet.
-- Takes an application lock of the session, never waiting (@LockTimeout 0; a lock that is free answers 0 or more).
-- Returns one row with 1 or 0: whether it was free.
declare @resource nvarchar(255) = N'$(lock_name)';
declare @answer int;

exec @answer = sp_getapplock
    @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = N'Session', @LockTimeout = 0;
select case when @answer >= 0 then 1 else 0 end as owns;
