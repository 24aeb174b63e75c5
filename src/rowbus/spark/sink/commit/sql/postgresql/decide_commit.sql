-- Decide that prepared transactions are what a batch consists of.
-- Waits for transactions that decide the same. Returns nothing; fails with 23505 if one of them is to be rolled back.
insert into rowbus_spark.decision (gid, verdict, sink_id, target, query_id, batch_id)
select
    given.gid,
    'commit' as verdict,
    :'sink_id' as sink_id,
    :'target' as target,
    :'query_id' as query_id,
    :'batch_id'::bigint as batch_id
from unnest(:'gids'::text[]) as given (gid)
