-- Say whether the queue's table exists and can be seen by this login. `object_id` sees a table by any right on it; that of
-- Babelfish only by SELECT, so there the list of tables is read as well, which has their names in small letters.
-- Locks nothing, but waits for a transaction that is creating or dropping it; returns one row with 1 or 0.
declare @queue_name nvarchar(400) = N'$(queue_name)';
declare @schema_name nvarchar(128) = N'$(schema_name)';
declare @table_name nvarchar(128) = N'$(table_name)';

select
    case
        when object_id(@queue_name, N'U') is not null then 1
        when
            exists (
                select 1
                from [$(catalog)].sys.tables as found
                inner join [$(catalog)].sys.schemas as places on found.schema_id = places.schema_id
                where
                    charindex(N'Babelfish', @@version) > 0
                    and places.name = @schema_name
                    and found.name = lower(@table_name)
            )
            then 1
        else 0
    end as is_there;
