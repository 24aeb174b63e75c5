-- Find who keeps dead rows of this database from being removed: sessions in a transaction with a snapshot or an id,
-- prepared transactions, standbys that send feedback, replication slots.
-- Locks nothing; returns kind, name, pid, role, state, how long it has lasted (null: unknown) and how many
-- transactions ago it began, the oldest first.
select
    'session' as kind,
    session.application_name as name,
    session.pid,
    session.usename::text as role,
    session.state,
    clock_timestamp() - session.xact_start as lasted,
    greatest(age(session.backend_xmin), age(session.backend_xid)) as transactions
from pg_stat_activity as session
where
    session.datname = current_database()
    and session.pid <> pg_backend_pid()
    and session.backend_type <> 'autovacuum worker'
    and (session.backend_xmin is not null or session.backend_xid is not null)
union all
select
    'prepared transaction' as kind,
    prepared.gid as name,
    null::integer as pid,
    prepared.owner::text as role,
    'prepared' as state,
    clock_timestamp() - prepared.prepared as lasted,
    age(prepared.transaction) as transactions
from pg_prepared_xacts as prepared
where prepared.database = current_database()
union all
select
    'standby' as kind,
    standby.application_name as name,
    standby.pid,
    standby.usename::text as role,
    standby.state,
    null::interval as lasted,
    age(standby.backend_xmin) as transactions
from pg_stat_replication as standby
where standby.backend_xmin is not null
union all
select
    'replication slot' as kind,
    slot.slot_name::text as name,
    slot.active_pid as pid,
    null::text as role,
    case when slot.active then 'active' else 'inactive' end as state,
    null::interval as lasted,
    age(slot.xmin) as transactions
from pg_replication_slots as slot
where slot.xmin is not null
order by transactions desc
