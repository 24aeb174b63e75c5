-- The archive has every event of the log once, as it is there, and no other. Checked: events.
-- Locks nothing; returns one row: checked, wrong, an example.
select
    count(*) as checked,
    count(*) filter (where counted.logged <> 1 or counted.archived <> 1) as wrong,
    min(format('event %s: %s in the log, %s in the archive', counted.ev_id, counted.logged, counted.archived))
        filter (where counted.logged <> 1 or counted.archived <> 1) as example
from (
    select
        events.ev_id,
        count(*) filter (where events.place = 'log') as logged,
        count(*) filter (where events.place = 'archive') as archived
    from (
        select
            'log' as place,
            ev_id,
            ev_time,
            ev_txid,
            ev_retry,
            ev_type,
            ev_data,
            ev_extra1,
            ev_extra2,
            ev_extra3,
            ev_extra4
        from rowbus_demo.events
        union all
        select
            'archive' as place,
            ev_id,
            ev_time,
            ev_txid,
            ev_retry,
            ev_type,
            ev_data,
            ev_extra1,
            ev_extra2,
            ev_extra3,
            ev_extra4
        from rowbus_demo.archived
    ) as events
    group by
        events.ev_id,
        events.ev_time,
        events.ev_txid,
        events.ev_retry,
        events.ev_type,
        events.ev_data,
        events.ev_extra1,
        events.ev_extra2,
        events.ev_extra3,
        events.ev_extra4
) as counted
