-- End the sessions of workers whose members are not registered any more because their batches were taken over, with
-- their open transactions, and wait for their end, 5 s each at most. Sessions of roles that this role may not end stay:
-- what they do cannot commit, but what they lock stays locked.
-- Locks nothing. Returns how many were ended.
with members as (
    select hashtextextended(jsonb_build_array('rowbus member', q.queue_name, c.co_name)::text, 0) as key
    from pgq.queue as q
    inner join pgq.subscription as s on q.queue_id = s.sub_queue
    inner join pgq.consumer as c on s.sub_consumer = c.co_id
    where q.queue_name = :'log'::text
),

locks as (
    select
        l.pid,
        (l.classid::bigint << 32) | l.objid::bigint as key
    from pg_locks as l
    where
        l.locktype = 'advisory'
        and l.granted
        and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        and l.objsubid = 1
)

select count(pg_terminate_backend(worker.pid, 5000)) as ended
from locks as worker
inner join pg_stat_activity as a on worker.pid = a.pid
inner join pg_roles as r on a.usesysid = r.oid
where
    worker.key = hashtextextended(:'members_lock'::text, 0)
    and worker.pid <> pg_backend_pid()
    and a.xact_start < statement_timestamp()
    and not exists (
        select
        from locks as own
        inner join members on own.key = members.key
        where own.pid = worker.pid
    )
    and pg_has_role(a.usesysid, 'usage')
    and (not r.rolsuper or current_setting('is_superuser') = 'on')
