-- Read the events between two snapshots from some blocks of a table, those that have neither a retry count nor more than
-- one extra: nearly all, in most logs. A column that is NULL costs its reader as much as any; here there are none of those
-- four. A column that is not wanted is NULL.
-- Whether others were left out is noted until the transaction ends: where all are of this kind, `read_blocks` need not
-- look at the blocks again, which takes a sixth of the time of reading them.
-- Only literals, as COPY takes no parameters. Locks the table against TRUNCATE until the transaction ends. Returns the
-- columns of an event that may have a value; `read_blocks` gives the other events.
select
    case when :'ev_id' then ev.ev_id end as ev_id,
    case when :'ev_time' then ev.ev_time end as ev_time,
    case when :'ev_txid' then ev.ev_txid end as ev_txid,
    case when :'ev_type' then ev.ev_type end as ev_type,
    case when :'ev_data' then ev.ev_data end as ev_data,
    case when :'ev_extra1' then ev.ev_extra1 end as ev_extra1
from :"schema".:"table" as ev
where
    ev.ctid >= :'first'::tid
    and ev.ctid < :'end'::tid
    and (
        (ev.ev_retry is null and ev.ev_extra2 is null and ev.ev_extra3 is null and ev.ev_extra4 is null)
        or (
            current_setting('rowbus.left_out', true) is distinct from 'yes'
            and set_config('rowbus.left_out', 'yes', true) is null
        )
    )
    and (ev.ev_txid < :'later_xmin'::bigint or txid_visible_in_snapshot(ev.ev_txid, :'later'))
    and (ev.ev_txid >= :'earlier_xmax'::bigint or not txid_visible_in_snapshot(ev.ev_txid, :'earlier'))
    and (ev.ev_owner is null or ev.ev_owner = :'owner')
