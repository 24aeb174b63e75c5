-- Create the table of a saga as NServiceBus.Persistence.Sql has it, found by an id or a number: a row for each that goes on.
-- `Concurrency` counts the writes of a row, 0 is one that begins in its transaction.
-- Locks nothing that exists; the caller holds the lock of `queues/lock_creation.sql`. Returns nothing; fails with 2714 or
-- 1913 if one without the lock was faster.
if object_id(N'$(shared_saga_name)', N'U') is null
begin
    create table [$(catalog)].[$(schema)].[$(shared_saga)] (
        Id uniqueidentifier not null primary key,
        Metadata nvarchar(max) not null,
        Data nvarchar(max) not null,
        PersistenceVersion varchar(23) not null,
        SagaTypeVersion varchar(23) not null,
        Concurrency int not null,
        [$(correlation_column)] [$(correlation_type)]
    );

    create unique nonclustered index [$(correlation_index)]
    on [$(catalog)].[$(schema)].[$(shared_saga)] ([$(correlation_column)])
    where [$(correlation_column)] is not null;
end;
