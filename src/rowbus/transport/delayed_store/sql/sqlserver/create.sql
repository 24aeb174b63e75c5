-- Create the table of a delayed message store, exactly as NServiceBus creates it for MSMQ: `State` is the body, `Time` when
-- the message is due (UTC).
-- Locks nothing that exists; the caller holds the lock of `queues/lock_creation.sql`. Returns nothing; fails with 2714 or
-- 1913 if one without the lock was faster.
if object_id(N'$(store_name)', N'U') is null
begin
    create table [$(catalog)].[$(schema)].[$(store)] (
        Id nvarchar(250) not null primary key,
        Destination nvarchar(200),
        State varbinary(max),
        [Time] datetime,
        Headers varbinary(max) not null,
        RetryCount int not null default 0
    );

    create nonclustered index Index_Time
    on [$(catalog)].[$(schema)].[$(store)] ([Time]);
end;
