-- Unsubscribe an endpoint from topics, which come as lines.
-- Locks the rows it deletes, found by the primary key, waiting for others who write them; returns one row a topic the
-- endpoint was subscribed to. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @endpoint nvarchar(200) = N'$(endpoint)';
declare @topics nvarchar(max) = N'$(topics)';

delete [$(catalog)].[$(schema)].[$(table)]
output deleted.Topic as topic
where
    Endpoint = @endpoint
    and Topic in (select value from string_split(@topics, nchar(10)));

if @nocount = 0 set nocount off;
