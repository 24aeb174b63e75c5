-- Add the readable copy of the body, a computed column: it occupies nothing, and reads UTF-16 bodies only (NServiceBus's own
-- definition, so that it finds it there).
-- Takes a short exclusive lock on the table; the caller holds the lock of `lock_creation.sql`. Returns nothing.
if not exists (
    select 1
    from [$(catalog)].sys.all_columns
    where object_id = object_id(N'$(queue_name)', N'U') and lower(name) = N'bodystring'
)
begin
    alter table [$(catalog)].[$(schema)].[$(queue)]
    add BodyString as cast(Body as nvarchar(max));
end;
