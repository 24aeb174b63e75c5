-- Take tokens of several keys, as many as there are; a key has one more every `intervals` seconds, until it has `bursts`.
-- Messages that have `waited` get theirs first; `fresh` ones get none while deferred ones wait. If it `defers`, each that
-- gets none has a turn, an interval apart, in `longest` seconds at most. Times that this limit cannot have made are cut.
-- Locks the keys' rows, in their order, waiting for others who take of them; then it looks at the clock. Returns for each
-- key with a row: key, tokens for `waited` and for `fresh`, and in how many seconds the first of the others has its turn.
with held as materialized (
    select
        bucket.key,
        extract(epoch from bucket.arrival)::float8 as arrival,
        extract(epoch from bucket.next_waited)::float8 as next_waited,
        extract(epoch from bucket.next_fresh)::float8 as next_fresh
    from :"schema".:"limits" as bucket
    where bucket.key = any(:'keys'::text[])
    order by bucket.key
    for update
),

timed as materialized (
    select
        held.*,
        extract(epoch from clock_timestamp())::float8 as at
    from held
),

asked as (
    select
        timed.key,
        timed.at,
        given.seconds,
        given.burst,
        given.waited,
        given.fresh,
        least(greatest(timed.arrival, timed.at), timed.at + given.burst * given.seconds) as arrival,
        least(greatest(timed.next_waited, timed.at), timed.at + :'longest'::float8) as next_waited,
        least(greatest(timed.next_fresh, timed.at), timed.at + :'longest'::float8) as next_fresh,
        greatest(timed.next_waited, timed.next_fresh) > timed.at as is_queued
    from timed
    inner join
        unnest(
            :'keys'::text[],
            :'intervals'::float8[],
            :'bursts'::integer[],
            :'waited'::integer[],
            :'fresh'::integer[]
        )
        as given (key, seconds, burst, waited, fresh)
        on timed.key = given.key
),

counted as (
    select
        asked.*,
        greatest(floor(asked.burst - (asked.arrival - asked.at) / asked.seconds), 0)::integer as tokens
    from asked
),

served as (
    select
        counted.*,
        least(counted.waited, counted.tokens) as waited_now
    from counted
),

granted as (
    select
        served.*,
        case when served.is_queued then 0 else least(served.fresh, served.tokens - served.waited_now) end
        as fresh_now
    from served
),

taken as (
    select
        granted.*,
        granted.arrival + (granted.waited_now + granted.fresh_now) * granted.seconds as arrival_then,
        granted.waited - granted.waited_now as waited_later,
        granted.fresh - granted.fresh_now as fresh_later
    from granted
),

ready as (
    select
        taken.*,
        greatest(taken.arrival_then - (taken.burst - 1) * taken.seconds, taken.at) as ready_at
    from taken
),

first_turns as (
    select
        ready.*,
        case when :'defers'::boolean then greatest(ready.ready_at, ready.next_waited) else ready.ready_at end
        as waited_at,
        greatest(ready.ready_at, ready.next_fresh, ready.next_waited) + ready.waited_later * ready.seconds
        as fresh_at
    from ready
),

noted as (
    update :"schema".:"limits" as bucket
    set
        arrival = to_timestamp(turn.arrival_then),
        next_waited = case
            when :'defers'::boolean and turn.waited_later > 0
                then to_timestamp(
                    least(turn.waited_at + turn.waited_later * turn.seconds, turn.at + :'longest'::float8)
                )
            else bucket.next_waited
        end,
        next_fresh = case
            when :'defers'::boolean and turn.fresh_later > 0
                then to_timestamp(
                    least(turn.fresh_at + turn.fresh_later * turn.seconds, turn.at + :'longest'::float8)
                )
            else bucket.next_fresh
        end
    from first_turns as turn
    where bucket.key = turn.key
    returning
        bucket.key,
        turn.waited_now,
        turn.fresh_now,
        greatest(turn.waited_at - turn.at, 0.001) as waited_in,
        greatest(turn.fresh_at - turn.at, 0.001) as fresh_in
)

select
    noted.key,
    noted.waited_now,
    noted.fresh_now,
    noted.waited_in,
    noted.fresh_in
from noted
