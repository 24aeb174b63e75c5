-- Create the table of a saga: one row for each one that goes on. `Concurrency` counts the writes of a row, 0 is one that
-- begins in its transaction. Correlations are compared byte for byte, as on PostgreSQL, in a catalog of any collation.
-- Locks nothing that exists; the caller holds the lock of `queues/lock_creation.sql`. Returns nothing; fails with 2714 or
-- 1913 if one without the lock was faster.
if object_id(N'$(saga_name)', N'U') is null
begin
    create table [$(catalog)].[$(schema)].[$(saga)] (
        Id uniqueidentifier not null primary key,
        Correlation nvarchar(200) collate Latin1_General_BIN2 not null,
        State nvarchar(max) not null,
        Version int not null,
        Concurrency int not null,
        Originator nvarchar(max),
        OriginalMessageId nvarchar(max),
        Timeouts nvarchar(max) not null,
        Began datetime not null,
        Changed datetime not null
    );

    create unique nonclustered index Index_Correlation
    on [$(catalog)].[$(schema)].[$(saga)] (Correlation);
end;
