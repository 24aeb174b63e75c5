-- Create the table of the messages that an endpoint has processed: one row a message id, for as long as it is remembered.
-- Keys are compared byte for byte, as on PostgreSQL, in a catalog of any collation.
-- Locks nothing that exists; the caller holds the lock of `queues/lock_creation.sql`. Returns nothing; fails with 2714 or
-- 1913 if one without the lock was faster.
if object_id(N'$(inbox_name)', N'U') is null
begin
    create table [$(catalog)].[$(schema)].[$(inbox)] (
        MessageKey nvarchar(400) collate Latin1_General_BIN2 not null primary key,
        Accepted datetime not null
    );

    create nonclustered index Index_Accepted
    on [$(catalog)].[$(schema)].[$(inbox)] (Accepted);
end;
