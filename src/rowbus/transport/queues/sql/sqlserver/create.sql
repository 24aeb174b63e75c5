-- Create one queue table, exactly as NServiceBus creates it (names, types and order of the columns): a heap with two
-- nonclustered indexes. CorrelationId and ReplyToAddress are legacy, read when others fill them and never filled by us.
-- Locks nothing that exists; the caller holds the lock of `lock_creation.sql`, under which NServiceBus's installers and
-- ours create this table one at a time. Returns nothing; fails with 2714 or 1913 if one without the lock was faster.
if object_id(N'$(queue_name)', N'U') is null
begin
    create table [$(catalog)].[$(schema)].[$(queue)] (
        Id uniqueidentifier not null,
        CorrelationId varchar(255),
        ReplyToAddress varchar(255),
        Recoverable bit not null,
        Expires datetime,
        Headers nvarchar(max) not null,
        Body varbinary(max),
        RowVersion bigint identity(1, 1) not null
    );

    create nonclustered index Index_RowVersion
    on [$(catalog)].[$(schema)].[$(queue)] (RowVersion);

    create nonclustered index Index_Expires
    on [$(catalog)].[$(schema)].[$(queue)] (Expires)
    include (Id, RowVersion)
    where Expires is not null;
end;
