-- Find the block of a table from which on the events between two snapshots, counted from a block on, are more than so many
-- bytes; their texts are not read for that.
-- Locks nothing but the table against TRUNCATE, until the transaction ends. Returns the block, NULL when they are fewer,
-- and the bytes of all.
with sized as (
    select
        (split_part(trim('()' from e.place::text), ',', 1))::bigint as block,
        sum(e.bytes) as bytes
    from (
        select
            ev.ctid as place,
            coalesce(octet_length(ev.ev_data), 0) + coalesce(octet_length(ev.ev_extra2), 0) as bytes
        from :"schema".:"table" as ev
        where
            ev.ev_txid >= :'low'
            and ev.ev_txid < :'high'
            and (ev.ev_txid < :'later_xmin'::bigint or txid_visible_in_snapshot(ev.ev_txid, :'later'))
            and (
                ev.ev_txid >= :'earlier_xmax'::bigint
                or not txid_visible_in_snapshot(ev.ev_txid, :'earlier')
            )
            and (ev.ev_owner is null or ev.ev_owner = :'owner')
        union all
        select
            ev.ctid as place,
            coalesce(octet_length(ev.ev_data), 0) + coalesce(octet_length(ev.ev_extra2), 0) as bytes
        from :"schema".:"table" as ev
        where
            :'has_late'::boolean
            and ev.ev_txid = any(:'late'::bigint[])
            and (ev.ev_owner is null or ev.ev_owner = :'owner')
    ) as e
    where e.place >= format('(%s,0)', :'first'::bigint)::tid
    group by 1
),

counted as (
    select
        s.block,
        sum(s.bytes) over (order by s.block) as bytes
    from sized as s
)

select
    min(c.block) filter (where c.bytes > :'most'::bigint) as block,
    coalesce(max(c.bytes), 0)::bigint as bytes
from counted as c
