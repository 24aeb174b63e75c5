-- Create the table of what a saga did: one row for each transition, numbered from 1 for each saga. Rows never change.
-- Locks nothing that exists; the caller holds the lock of `queues/lock_creation.sql`. Returns nothing; fails with 2714 or
-- 1913 if one without the lock was faster.
if object_id(N'$(history_name)', N'U') is null
begin
    create table [$(catalog)].[$(schema)].[$(history)] (
        SagaId uniqueidentifier not null,
        Number int not null,
        Correlation nvarchar(200) collate Latin1_General_BIN2 not null,
        MessageId nvarchar(max) not null,
        MessageType nvarchar(max) not null,
        Before nvarchar(max),
        After nvarchar(max) not null,
        IsCompleted int not null,
        At datetime not null,
        primary key (SagaId, Number)
    );

    create nonclustered index Index_Correlation
    on [$(catalog)].[$(schema)].[$(history)] (Correlation);

    create nonclustered index Index_Completed
    on [$(catalog)].[$(schema)].[$(history)] (IsCompleted, At);
end;
