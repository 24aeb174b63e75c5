-- Create the table of the schedules of an endpoint's recurring messages: one row each, with the tick that it waits for.
-- Names are compared byte for byte, as on PostgreSQL, in a catalog of any collation. Times are in UTC.
-- Locks nothing that exists; the caller holds the lock of `queues/lock_creation.sql`. Returns nothing; fails with 2714 if
-- one without the lock was faster.
if object_id(N'$(recurring_name)', N'U') is null
begin
    create table [$(catalog)].[$(schema)].[$(recurring)] (
        Name nvarchar(200) collate Latin1_General_BIN2 not null primary key,
        Schedule nvarchar(400) not null,
        NextDue datetime2 not null,
        LastSent datetime2
    );
end;
