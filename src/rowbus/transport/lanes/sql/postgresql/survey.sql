-- Say which processes work on an endpoint's lanes, and which session has each lane.
-- A process is alive while its session of `join_members.sql` has asked something within `patience`; of a role whose sessions
-- this one may not see it is taken to be. Locks nothing. Returns a row a lane, with its holder's process number on the
-- server and the number of its process, null where it is free; and a row with no lane for each process that is alive.
with held as materialized (
    select
        lock.pid,
        lock.classid::bigint as class,
        lock.objid::bigint as number,
        lock.objsubid as parts
    from pg_catalog.pg_locks as lock
    inner join pg_catalog.pg_database as here on lock.database = here.oid
    where lock.locktype = 'advisory' and lock.granted and here.datname = current_database()
),

lanes as (
    select
        named.name,
        hashtextextended(named.name, 0) as key
    from unnest(:'lanes'::text[]) as named (name)
)

select
    lanes.name as lane,
    holder.pid,
    process.number as process
from lanes
left join held as holder
    on
        holder.parts = 1
        and holder.class = (lanes.key >> 32) & 4294967295
        and holder.number = lanes.key & 4294967295
left join held as process
    on
        holder.pid = process.pid
        and process.parts = 2
        and process.class = hashtext(:'members'::text)::bigint & 4294967295
union all
select
    null as lane,
    member.pid,
    member.number as process
from held as member
left join pg_catalog.pg_stat_activity as activity on member.pid = activity.pid
where
    member.parts = 2
    and member.class = hashtext(:'beats'::text)::bigint & 4294967295
    and coalesce(activity.query_start > clock_timestamp() - :'patience'::interval, true)
