-- Say how many events between two snapshots lie in a table, in which of its blocks, and which file holds it.
-- Locks nothing but the table against TRUNCATE, until the transaction ends. Returns the file's number, the count, and
-- the first and the last block, NULL when there is none.
select
    pg_relation_filenode(:'name'::regclass)::bigint as node,
    count(*) as events,
    (split_part(trim('()' from min(e.place)::text), ',', 1))::bigint as first,
    (split_part(trim('()' from max(e.place)::text), ',', 1))::bigint as last
from (
    select ev.ctid as place
    from :"schema".:"table" as ev
    where
        ev.ev_txid >= :'low'
        and ev.ev_txid < :'high'
        and (ev.ev_txid < :'later_xmin'::bigint or txid_visible_in_snapshot(ev.ev_txid, :'later'))
        and (ev.ev_txid >= :'earlier_xmax'::bigint or not txid_visible_in_snapshot(ev.ev_txid, :'earlier'))
        and (ev.ev_owner is null or ev.ev_owner = :'owner')
    union all
    select ev.ctid as place
    from :"schema".:"table" as ev
    where
        :'has_late'::boolean
        and ev.ev_txid = any(:'late'::bigint[])
        and (ev.ev_owner is null or ev.ev_owner = :'owner')
) as e
