-- Estimate, up to `most`, how many messages a receiver could take now: those waiting less those in somebody's hands.
-- Locks nothing, so it never makes a receiver pass over a message: a row in hand shows in its xmax, a transaction that
-- this snapshot sees as running. Rows taken in a subtransaction count as available. Returns one row with one integer.
with here as (
    select pg_current_snapshot() as snapshot
),

running as (
    select
        array(
            select transaction::text::bigint & 4294967295
            from pg_snapshot_xip(here.snapshot) as transaction
        ) as transactions,
        pg_snapshot_xmax(here.snapshot)::text::bigint & 4294967295 as next_transaction
    from here
),

waiting as (
    select message.xmax::text::bigint as taker
    from :"schema".:"queue" as message
    where message.seq >= :'lower_bound'::integer
    order by message.seq
    limit :'most'::integer
)

select count(*)::integer
from waiting
cross join running
where
    waiting.taker < running.next_transaction
    and waiting.taker <> all(running.transactions)
