-- Subscribe an endpoint to topics, or say where its copies go from now on; what says so already is left alone. No `merge`:
-- Babelfish refuses it. The topics come as lines; none of them holds a line break.
-- On SQL Server `updlock, holdlock` keep the rows, and the places of those that are missing, from others that subscribe the
-- same endpoint to the same topics: those wait until this transaction ends, publishers that look them up as well. Returns
-- one row: for how many topics that was news. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @endpoint nvarchar(200) = N'$(endpoint)';
declare @queue_address nvarchar(200) = N'$(queue_address)';
declare @topics nvarchar(max) = N'$(topics)';
declare @news int;

update [$(catalog)].[$(schema)].[$(table)] with (updlock, holdlock)
set QueueAddress = @queue_address
where
    Endpoint = @endpoint
    and Topic in (select value from string_split(@topics, nchar(10)))
    and QueueAddress collate Latin1_General_BIN2 <> @queue_address;
set @news = @@rowcount;

insert into [$(catalog)].[$(schema)].[$(table)] (QueueAddress, Endpoint, Topic)
select distinct
    @queue_address as QueueAddress,
    @endpoint as Endpoint,
    wanted.value as Topic
from string_split(@topics, nchar(10)) as wanted
where not exists (
    select 1
    from [$(catalog)].[$(schema)].[$(table)] as known with (updlock, holdlock)
    where known.Endpoint = @endpoint and known.Topic = wanted.value
)
order by wanted.value;
set @news = @news + @@rowcount;
select @news as news;

if @nocount = 0 set nocount off;
