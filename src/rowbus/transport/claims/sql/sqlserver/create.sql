-- Create the table of the values that messages keep outside of their rows: a row for each part of a value. Times are in
-- UTC.
-- Locks nothing that exists; the caller holds the lock of `queues/lock_creation.sql`. Returns nothing; fails with 2714 or
-- 1913 if one without the lock was faster.
if object_id(N'$(claimed_name)', N'U') is null
begin
    create table [$(catalog)].[$(schema)].[$(claimed)] (
        Id uniqueidentifier not null,
        Part int not null,
        Parts int not null,
        KeepUntil datetime not null,
        Content varbinary(max) not null,
        primary key (Id, Part)
    );

    create nonclustered index Index_KeepUntil
    on [$(catalog)].[$(schema)].[$(claimed)] (KeepUntil);
end;
