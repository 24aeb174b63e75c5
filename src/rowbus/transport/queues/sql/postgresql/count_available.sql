-- Count, up to `most`, the messages a receiver could take now: those waiting that are not in flight.
-- Locks nothing, so it never makes a receiver pass over a message: a row in hand shows in its xmax, a transaction that
-- this snapshot sees as running (ids are compared on the circle of 32 bits; 0 is none). Reads past rows in hand, so a
-- slow handler's message hides no other. Rows taken in a subtransaction count too. Returns one row with one integer.
with here as (
    select
        array(
            select transaction::text::bigint & 4294967295
            from pg_snapshot_xip(pg_current_snapshot()) as transaction
        ) as running,
        (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1) & 4294967295 as newest
),

available as (
    select message.seq
    from :"schema".:"queue" as message
    where
        message.seq >= :'lower_bound'::integer
        and (
            message.xmax = '0'::xid
            or (
                message.xmax::text::bigint <> all((select here.running from here)::bigint[])
                and (((select here.newest from here) - message.xmax::text::bigint) & 4294967295) < 2147483648
            )
        )
    order by message.seq
    limit :'most'::integer
)

select count(*)::integer
from available
