-- Count the events between two snapshots in some blocks of a table, evenly spread, and say how many blocks it has and
-- which file holds it.
-- Locks nothing but the table against TRUNCATE, until the transaction ends. Returns a row: the file's number, the number
-- of blocks, and the counts of the sampled blocks, from the first part of the table to the last.
with extent as materialized (
    select
        pg_relation_filenode(:'name'::regclass)::bigint as node,
        pg_relation_size(:'name'::regclass) / current_setting('block_size')::bigint as blocks
)

select
    e.node,
    e.blocks,
    array(
        select (
            select count(*)
            from :"schema".:"table" as ev
            where
                ev.ctid >= format('(%s,0)', e.blocks * n.part / :'samples')::tid
                and ev.ctid < format('(%s,0)', e.blocks * n.part / :'samples' + 1)::tid
                and (ev.ev_txid < :'later_xmin'::bigint or txid_visible_in_snapshot(ev.ev_txid, :'later'))
                and (
                    ev.ev_txid >= :'earlier_xmax'::bigint
                    or not txid_visible_in_snapshot(ev.ev_txid, :'earlier')
                )
                and (ev.ev_owner is null or ev.ev_owner = :'owner')
        )
        from generate_series(0, :'samples' - 1) as n (part)
        order by n.part
    ) as counts
from extent as e
