-- Say how many messages wait in a queue, counting up to `most`, how many of those somebody has in hand (a row in hand
-- shows in its xmax, a transaction that this snapshot sees as running; ids are compared on the circle of 32 bits), and
-- the headers of the oldest, up to their first 65,536 characters.
-- Locks nothing; returns one row: depth, in_hand, oldest_headers (null: none), and the database's time.
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
    order by message.seq
    limit :'most'::integer
)

select
    count(*)::integer as depth,
    count(*) filter (
        where
            waiting.taker = any(running.transactions)
            or (waiting.taker <> 0 and ((waiting.taker - running.next_transaction) & 4294967295) < 2147483648)
    )::integer as in_hand,
    (
        select left(message.headers, 65536)
        from :"schema".:"queue" as message
        order by message.seq
        limit 1
    ) as oldest_headers,
    now() as at
from waiting
cross join running
