-- Ask whether a table holds an event of the transactions that a later snapshot sees and an earlier one does not.
-- Locks nothing but the table against TRUNCATE, until the transaction ends. Returns true or false.
select
    exists (
        select from :"schema".:"table" as ev
        where
            ev.ev_txid >= :'low'
            and ev.ev_txid < :'high'
            and (ev.ev_txid < :'later_xmin'::bigint or txid_visible_in_snapshot(ev.ev_txid, :'later'))
            and (
                ev.ev_txid >= :'earlier_xmax'::bigint
                or not txid_visible_in_snapshot(ev.ev_txid, :'earlier')
            )
            and (ev.ev_owner is null or ev.ev_owner = :'owner')
    )
    or exists (
        select from :"schema".:"table" as ev
        where
            ev.ev_txid = any(:'late'::bigint[])
            and (ev.ev_owner is null or ev.ev_owner = :'owner')
    ) as found
