-- Wait for the lock under which NServiceBus's installers and ours create one table, one at a time.
-- Holds an application lock of the transaction, whose name both derive from the table's qualified name; the name is cut at
-- 255 characters, as the server does. Returns nothing.
declare @resource nvarchar(255) = N'$(resource)';

exec sp_getapplock @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = N'Transaction';
