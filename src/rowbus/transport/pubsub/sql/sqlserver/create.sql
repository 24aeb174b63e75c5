-- Create the table of who subscribes to what, exactly as NServiceBus creates it (names, types and order of the columns);
-- its primary key is clustered.
-- Locks nothing that exists; the caller holds the lock of `queues/lock_creation.sql`, under which installers create this
-- table one at a time. Returns nothing; fails with 2714 if one without the lock was faster.
if object_id(N'$(table_name)', N'U') is null
begin
    create table [$(catalog)].[$(schema)].[$(table)] (
        QueueAddress nvarchar(200) not null,
        Endpoint nvarchar(200) not null,
        Topic nvarchar(200) not null,
        primary key (Endpoint, Topic)
    );
end;
