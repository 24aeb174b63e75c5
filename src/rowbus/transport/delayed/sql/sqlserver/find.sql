-- Look at the messages behind a place, in the order of their time, whose headers hold a text (empty: all), in any case.
-- Reads at most `most_read` messages, so that it ends soon in a large table.
-- On SQL Server `readpast` passes over what a mover has in its hands, so it never waits. Keeps no lock. A time is
-- given as datetime2, which hides nothing that a place is compared with: Babelfish keeps more of one than it shows.
-- Returns position, due (UTC), headers and size of the body of at most `most` messages.
declare @after_due datetime = cast(nullif(N'$(after_due)', N'') as datetime2);
declare @after_position bigint = cast(nullif(N'$(after_position)', N'') as bigint);
declare @text nvarchar(max) = lower(N'$(text)');
declare @most_read int = N'$(most_read)';
declare @most int = N'$(most)';

select top(@most)
    looked_at.RowVersion as position,
    cast(looked_at.Due as datetime2) as due,
    substring(looked_at.Headers, 1, 1048576) as headers,
    coalesce(datalength(looked_at.Body), 0) as size
from (
    select top(@most_read)
        RowVersion,
        Due,
        Headers,
        Body
    from [$(catalog)].[$(schema)].[$(delayed)] with (readpast)
    where @after_due is null or Due > @after_due or (Due = @after_due and RowVersion > @after_position)
    order by Due, RowVersion
) as looked_at
where @text = N'' or charindex(@text, lower(looked_at.Headers)) > 0
order by looked_at.Due, looked_at.RowVersion;
