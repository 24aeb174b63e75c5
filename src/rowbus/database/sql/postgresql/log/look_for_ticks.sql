-- Find the logs that want a tick, now or soon: something came, a transaction of before the last tick has ended, or it
-- has been quiet long enough (PgQ's rule: the pauses double, up to the idle period). Whether to tick is decided by
-- pgq.ticker; this only spares asking it, and has its rules, those of pgq._tick_period and pgq._writers_ended too.
-- Logs in `except` are left out; `only` is one to look at alone, or NULL. Locks nothing, but waits for whoever is
-- dropping a log. Returns id, name, tick period, whether the sequence moved, and the seconds until a tick is due (0 or
-- less: now); one row a log.
with log as (
    select
        q.queue_id,
        q.queue_name,
        q.queue_ticker_max_count,
        extract(epoch from q.queue_ticker_idle_period)::float8 as idle_period,
        extract(epoch from coalesce(
            o.qo_tick_period,
            nullif(q.queue_ticker_max_lag, interval '3 seconds'),
            :'tick_period'::interval,
            q.queue_ticker_max_lag
        ))::float8 as period,
        pg_sequence_last_value(to_regclass(q.queue_event_seq)) as position
    from pgq.queue as q
    left join pgq.queue_option as o on q.queue_id = o.qo_queue
    where
        not q.queue_external_ticker
        and not q.queue_ticker_paused
        and q.queue_id <> all(:'except'::integer[])
        and (:'only'::integer is null or q.queue_id = :'only'::integer)
),

state as (
    select
        log.*,
        extract(epoch from now() - last.tick_time)::float8 as age,
        extract(epoch from last.tick_time - previous.tick_time)::float8 as gap,
        case
            -- A sequence says 1 before and after its first use, and so do ticks.
            when log.position = 1 and last.tick_event_seq = 1
                then pgq._first_event_waits(log.queue_id, last.tick_snapshot)::integer
            else coalesce(log.position, 1) - last.tick_event_seq
        end as pending,
        case
            -- The tick saw the sequence move: whoever moved it may have an id beyond the tick's snapshot, or beyond the
            -- tick's own, which is the first after its snapshot if nobody else has one.
            when last.tick_event_seq = previous.tick_event_seq
                then exists (
                    select from txid_snapshot_xip(last.tick_snapshot) as running
                    where
                        txid_visible_in_snapshot(running, txid_current_snapshot())
                        and running < (
                            -- What began after the tick after the one that saw the move wrote nothing.
                            select (array_agg(txid_snapshot_xmax(r.tick_snapshot) order by r.tick_id))[2]
                            from (
                                select
                                    t.tick_id,
                                    t.tick_snapshot,
                                    t.tick_event_seq
                                from pgq.tick as t
                                where t.tick_queue = log.queue_id
                                order by t.tick_id desc
                                limit 30
                            ) as r
                            where r.tick_event_seq = last.tick_event_seq
                        )
                )
            else
                txid_snapshot_xmax(txid_current_snapshot()) > txid_snapshot_xmax(last.tick_snapshot) + 1
                or exists (
                    select from txid_snapshot_xip(last.tick_snapshot) as running
                    where txid_visible_in_snapshot(running, txid_current_snapshot())
                )
        end as ended
    from log
    left join lateral (
        select
            t.tick_id,
            t.tick_time,
            t.tick_event_seq,
            t.tick_snapshot
        from pgq.tick as t
        where t.tick_queue = log.queue_id
        order by t.tick_id desc
        limit 1
    ) as last on true
    left join lateral (
        select
            t.tick_id,
            t.tick_time,
            t.tick_event_seq
        from pgq.tick as t
        where t.tick_queue = log.queue_id and t.tick_id < last.tick_id
        order by t.tick_id desc
        limit 1
    ) as previous on true
),

wish as (
    select
        state.*,
        coalesce(state.pending <> 0, true) as moved,
        case
            when state.age is null or state.pending >= state.queue_ticker_max_count then 0
            when state.pending <> 0 or state.ended then state.period - state.age
            when state.gap is null then 0
            else greatest(state.period / 2, least(2 * state.gap, state.idle_period)) - state.age
        end as wait
    from state
)

select
    wish.queue_id,
    wish.queue_name,
    wish.period,
    wish.moved,
    wish.wait
from wish
where wish.moved or wish.ended or wish.wait <= 0
