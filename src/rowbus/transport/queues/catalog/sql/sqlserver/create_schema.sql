-- Create the schema that queues live in if it is missing; only on request. Through `exec`, because
-- `create schema` has to be a batch of its own.
-- Locks nothing that exists; returns nothing. Fails with 2714 if another session was faster.
declare @schema nvarchar(128) = N'$(schema)';
declare @statement nvarchar(max) = concat(N'create schema ', quotename(@schema));

if schema_id(@schema) is null
begin
    exec (@statement);
end;
