-- Compute each queue's last tick, and whether and when its next one is due: the one place of PgQ's rules, and of our
-- additions to them. Read by pgq.ticker and by the Rowbus ticker's look at all logs, which saves calls to pgq.ticker.
--
-- `period` is how long events may wait: the queue's own tick_period, else a ticker_max_lag that is not PgQ's default,
-- else what the session of a Rowbus ticker says (its setting pgq.tick_period), else ticker_max_lag. `moved` says that
-- events have come; `ended`, that none have, but a transaction that may have written some before the last tick has
-- ended after it. `wait` is the time until a tick is due: when there are enough events, or old enough ones; and in
-- quiet times at doubling distances, up to the idle period. Locks nothing.
create or replace view pgq._tick_wish as
select
    q.queue_id,
    q.queue_name,
    not q.queue_external_ticker and not q.queue_ticker_paused as is_ticked,
    last.tick_id as last_tick_id,
    last.tick_time as last_tick_time,
    seen.period,
    last.tick_id is null or news.pending > 0 as moved,
    old.ended,
    case
        when last.tick_id is null then interval '0'
        when news.pending > 0 and news.pending >= q.queue_ticker_max_count then interval '0'
        when news.pending > 0 then seen.period - seen.age
        when previous.tick_id is null then interval '0'
        else least(
            case when old.ended then seen.period end,
            greatest(
                seen.period / 2, least(2 * (last.tick_time - previous.tick_time), q.queue_ticker_idle_period)
            )
        ) - seen.age
    end as wait
from pgq.queue as q
left join pgq.queue_option as o on q.queue_id = o.qo_queue
left join lateral (
    select t.*
    from pgq.tick as t
    where t.tick_queue = q.queue_id
    order by t.tick_id desc
    limit 1
) as last on true
left join lateral (
    select t.*
    from pgq.tick as t
    where t.tick_queue = q.queue_id and t.tick_id < last.tick_id
    order by t.tick_id desc
    limit 1
) as previous on true
-- Ordering and limiting to one row makes the planner evaluate an expression once, not at each mention.
cross join lateral (
    select
        now() - last.tick_time as age,
        coalesce(last.tick_event_seq <> previous.tick_event_seq, true) as has_moved,
        pg_sequence_last_value(to_regclass(q.queue_event_seq)) as position, -- NULL before its first use
        coalesce(
            o.qo_tick_period,
            nullif(q.queue_ticker_max_lag, interval '3 seconds'),
            nullif(current_setting('pgq.tick_period', true), '')::interval,
            q.queue_ticker_max_lag
        ) as period
    order by period
    limit 1
) as seen
cross join lateral (
    select
        case
            -- Ticks say 1 before and after the sequence's first use.
            when seen.position = 1 and last.tick_event_seq = 1
                then pgq._first_event_waits(q.queue_id, last.tick_snapshot)::integer
            else coalesce(seen.position, 1) - last.tick_event_seq
        end as pending
    order by pending
    limit 1
) as news
cross join lateral (
    select
        case
            when last.tick_id is null or news.pending > 0 then false
            -- The tick saw the sequence move: the writer may have an id beyond the tick's snapshot, or beyond the
            -- tick's own, which is the first after its snapshot if no other transaction has that.
            when
                seen.has_moved
                and txid_snapshot_xmax(txid_current_snapshot()) > txid_snapshot_xmax(last.tick_snapshot) + 1
                then true
            else exists (
                select from txid_snapshot_xip(last.tick_snapshot) as running
                where txid_visible_in_snapshot(running, txid_current_snapshot())
                    -- The tick after one that saw the sequence move knows the writer's id; so transactions begun after
                    -- that second one wrote nothing. It is looked for among the last 30 ticks: a writer still
                    -- running after so many waits for a tick of quiet times.
                    and (
                        seen.has_moved
                        or running < (
                            select (array_agg(txid_snapshot_xmax(r.tick_snapshot) order by r.tick_id))[2]
                            from (
                                select t.*
                                from pgq.tick as t
                                where t.tick_queue = q.queue_id
                                order by t.tick_id desc
                                limit 30
                            ) as r
                            where r.tick_event_seq = last.tick_event_seq
                        )
                    )
            )
        end as ended
    order by ended
    limit 1
) as old;
