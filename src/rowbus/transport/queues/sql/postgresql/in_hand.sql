-- Find the messages of a queue that somebody has in hand, among its oldest: their rows are deleted by transactions that run.
-- Locks nothing; returns id, headers (their beginning), and of the session that has it: the process, the place (null: not
-- for this role to see), and since when its transaction runs.
select
    message.id,
    left(message.headers, 65536) as headers,
    holder.pid,
    case
        when session.backend_start is not null
            then coalesce(host(session.client_addr), 'the server''s machine')
    end as place,
    session.xact_start as since
from (
    select
        waiting.id,
        waiting.headers,
        waiting.xmax as taker
    from :"schema".:"queue" as waiting
    order by waiting.seq
    limit :'looked_at'::integer
) as message
inner join pg_locks as holder
    on
        message.taker = holder.transactionid
        and holder.locktype = 'transactionid'
        and holder.granted
        and holder.mode = 'ExclusiveLock'
left join pg_stat_activity as session on holder.pid = session.pid
order by session.xact_start
limit :'most'::integer
