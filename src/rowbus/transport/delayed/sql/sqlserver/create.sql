-- Create one table of delayed messages, exactly as NServiceBus creates it (names, types and order of the columns): a heap
-- with one nonclustered index, in whose order messages become due.
-- Locks nothing that exists; the caller holds the lock of `queues/lock_creation.sql`, under which installers create this
-- table one at a time. Returns nothing; fails with 2714 or 1913 if one without the lock was faster.
if object_id(N'$(delayed_name)', N'U') is null
begin
    create table [$(catalog)].[$(schema)].[$(delayed)] (
        Headers nvarchar(max) not null,
        Body varbinary(max),
        Due datetime not null,
        RowVersion bigint identity(1, 1) not null
    );

    create nonclustered index Index_Due
    on [$(catalog)].[$(schema)].[$(delayed)] (Due);
end;
