-- Read the events between two snapshots from some blocks of a table: all, or those that `read_lean_blocks` has left out.
-- A column that is not wanted is NULL.
-- A condition that is NULL is none: PostgreSQL's planner removes it.
-- Only literals, as COPY takes no parameters. Locks the table against TRUNCATE until the transaction ends. Returns the
-- columns of an event and the tick that first saw it (NULL when there is only one).
select
    case when :'ev_id' then ev.ev_id end as ev_id,
    case when :'ev_time' then ev.ev_time end as ev_time,
    case when :'ev_txid' then ev.ev_txid end as ev_txid,
    case when :'ev_retry' then ev.ev_retry end as ev_retry,
    case when :'ev_type' then ev.ev_type end as ev_type,
    case when :'ev_data' then ev.ev_data end as ev_data,
    case when :'ev_extra1' then ev.ev_extra1 end as ev_extra1,
    case when :'ev_extra2' then ev.ev_extra2 end as ev_extra2,
    case when :'ev_extra3' then ev.ev_extra3 end as ev_extra3,
    case when :'ev_extra4' then ev.ev_extra4 end as ev_extra4,
    case
        when :'tick_id' then (:'ticks'::bigint[])[width_bucket(ev.ev_txid, :'breaks'::bigint[]) + 1]
    end as tick_id
from :"schema".:"table" as ev
where
    ev.ctid >= :'first'::tid
    and ev.ctid < :'end'::tid
    and (:'all' or current_setting('rowbus.left_out', true) = 'yes')
    and (
        :'all'
        or ev.ev_retry is not null
        or ev.ev_extra2 is not null
        or ev.ev_extra3 is not null
        or ev.ev_extra4 is not null
    )
    and (:'ev_id_least'::bigint is null or ev.ev_id >= :'ev_id_least'::bigint)
    and (:'ev_id_most'::bigint is null or ev.ev_id <= :'ev_id_most'::bigint)
    and (:'ev_id_one_of'::bigint[] is null or ev.ev_id = any(:'ev_id_one_of'::bigint[]))
    and (:'ev_txid_least'::bigint is null or ev.ev_txid >= :'ev_txid_least'::bigint)
    and (:'ev_txid_most'::bigint is null or ev.ev_txid <= :'ev_txid_most'::bigint)
    and (:'ev_txid_one_of'::bigint[] is null or ev.ev_txid = any(:'ev_txid_one_of'::bigint[]))
    and (:'ev_time_least'::timestamptz is null or ev.ev_time >= :'ev_time_least'::timestamptz)
    and (:'ev_time_most'::timestamptz is null or ev.ev_time <= :'ev_time_most'::timestamptz)
    and (:'ev_time_one_of'::timestamptz[] is null or ev.ev_time = any(:'ev_time_one_of'::timestamptz[]))
    and (:'ev_type_one_of'::text[] is null or ev.ev_type = any(:'ev_type_one_of'::text[]))
    and (:'ev_type_prefix'::text is null or starts_with(ev.ev_type, :'ev_type_prefix'::text))
    and (:'ev_type_null'::boolean is null or (ev.ev_type is null) = :'ev_type_null'::boolean)
    and (:'ev_extra1_one_of'::text[] is null or ev.ev_extra1 = any(:'ev_extra1_one_of'::text[]))
    and (:'ev_extra1_prefix'::text is null or starts_with(ev.ev_extra1, :'ev_extra1_prefix'::text))
    and (:'ev_extra1_null'::boolean is null or (ev.ev_extra1 is null) = :'ev_extra1_null'::boolean)
    and (ev.ev_txid < :'later_xmin'::bigint or txid_visible_in_snapshot(ev.ev_txid, :'later'))
    and (ev.ev_txid >= :'earlier_xmax'::bigint or not txid_visible_in_snapshot(ev.ev_txid, :'earlier'))
    and (ev.ev_owner is null or ev.ev_owner = :'owner')
