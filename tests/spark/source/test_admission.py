"""Amount that one micro-batch takes: limits, several logs, ticks too large, waiting, running once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from rowbus.database.statements import Statement
from tests.fixtures.pairs import effort
from tests.fixtures.processes import await_that
from tests.log.orders import Orders
from tests.spark.source.conftest import Streams
from tests.spark.source.reading import Query, as_spark, datas

PADDING = "x" * 100


def fill(orders: Orders, count: int, log: str = "orders") -> int:
    """Append so many events to a log, quickly, and tick."""
    (table,) = orders.one("select pgq.current_event_table(%s)", log)
    orders.connection.execute(
        f"insert into {table} (ev_id, ev_time, ev_type, ev_data)"
        f" select nextval(q.queue_event_seq), now(), 'order', g || %s from pgq.queue q, generate_series(1, {count}) g"
        " where q.queue_name = %s",
        [PADDING, log],
    )
    orders.connection.execute("select pgq.force_tick(%s)", [log])
    orders.connection.execute("select pgq.ticker(%s)", [log])
    return int(orders.one("select max(tick_id) from pgq.tick")[0])


def another(orders: Orders, log: str) -> None:
    orders.connection.execute(
        "select pgq.create_queue(%s), pgq.set_queue_config(%s, 'ticker_max_lag', '0')", [log, log]
    )


def test_a_tick_that_is_too_large_is_read_in_parts_of_about_the_size_asked_for(
    orders: Orders, stream: Streams
) -> None:
    fill(orders, 30_000)
    query = Query(stream(maxOffsetsPerTrigger=3000))
    sizes = [len(rows) for rows in query.batches(ReadMaxRows(3000))]
    assert sum(sizes) == 30_000
    assert len(sizes) >= 10
    assert max(sizes) < 3000 * 1.3


@pytest.mark.parametrize("limit", ["maxOffsetsPerTrigger", "maxBytesPerTrigger"])
def test_where_the_order_of_events_counts_no_tick_is_cut_and_the_rest_of_one_comes_at_once(
    orders: Orders, stream: Streams, limit: str
) -> None:
    """A transaction fills up a block that another has left, so blocks are not in the order of events."""
    fill(orders, 6000)
    query = Query(stream(**{limit: 20_000}))
    begun = query.batch(ReadMaxRows(1000)) or []
    assert "to" in query.at["orders"]
    query.reader.stop()
    query.reader = stream(**{limit: 20_000}, cutTicks=False)
    fill(orders, 6000)
    sizes = [len(rows) for rows in query.batches(ReadMaxRows(1000))]
    assert sizes == [6000 - len(begun), 6000]


@pytest.mark.parametrize("events", [None, 400])
def test_a_batch_has_no_more_bytes_than_asked_for_however_they_are_spread(
    orders: Orders, stream: Streams, events: int | None
) -> None:
    for sizes in ([100] * 50, [100] * 1500 + [20_000] * 200 + [100] * 300, [100] * 50, [300_000] * 2):
        orders.deliver(*[str(number).ljust(size, "x") for number, size in enumerate(sizes)])
    query = Query(stream(maxBytesPerTrigger=700_000))
    read = list(query.batches(None if events is None else ReadMaxRows(events)))
    assert sum(map(len, read)) == 2102
    assert len({row["ev_id"] for rows in read for row in rows}) == 2102
    sizes = [sum(len(row["ev_data"]) for row in rows) for rows in read]
    assert max(sizes) <= 700_000
    assert len(sizes) < (13 if events is None else 20)


def test_ticks_are_kept_whole_where_they_fit(orders: Orders, stream: Streams) -> None:
    ends = [fill(orders, count) for count in (100, 100, 100, 300, 20)]
    query = Query(stream())
    sizes = []
    while (rows := query.batch(ReadMaxRows(250))) is not None:
        sizes.append(len(rows))
        assert "to" not in query.at["orders"]
        assert query.at["orders"]["tick"] in ends
    assert sum(sizes) == 620
    assert max(sizes) == 300  # a little over the limit, and not cut for that


def test_the_number_of_ticks_can_be_limited(orders: Orders, stream: Streams) -> None:
    for data in "abcde":
        orders.deliver(data)
    query = Query(stream(maxTicksPerTrigger=2))
    assert [datas(rows) for rows in query.batches()] == [["a", "b"], ["c", "d"], ["e"]]


def test_a_long_transaction_is_not_taken_for_a_small_tick(orders: Orders, stream: Streams) -> None:
    with psycopg.connect(orders.dsn) as connection:
        connection.execute(
            "select pgq.insert_event('orders', 'order', %s) from generate_series(1, 4000)", [PADDING]
        )
        orders.tick()  # the event sequence counts what is not committed yet
        reader = stream(startingOffsets="latest")
        query = Query(reader)
    orders.tick()
    sizes = [len(rows) for rows in query.batches(ReadMaxRows(1000))]
    assert sum(sizes) == 4000
    assert len(sizes) >= 4


def test_spark_may_ask_for_all_in_spite_of_a_limit(orders: Orders, stream: Streams) -> None:
    fill(orders, 2000)
    query = Query(stream(maxOffsetsPerTrigger=100))
    assert len(query.batch(ReadAllAvailable()) or []) == 2000


def test_our_limit_is_what_spark_is_told(stream: Streams) -> None:
    assert stream(maxOffsetsPerTrigger=7).getDefaultReadLimit() == ReadMaxRows(7)
    assert stream().getDefaultReadLimit() == ReadAllAvailable()


def test_a_run_that_takes_what_is_there_now_ends(orders: Orders, stream: Streams) -> None:
    orders.deliver("a")
    reader = stream()
    reader.prepareForTriggerAvailableNow()
    query = Query(reader)
    orders.deliver("b")
    assert [datas(rows) for rows in query.batches()] == [["a"]]


def test_several_logs_share_the_limit_and_each_gets_something(orders: Orders, stream: Streams) -> None:
    another(orders, "audit")
    fill(orders, 9000)
    fill(orders, 900, "audit")
    query = Query(stream(log=None, logs="orders,audit"))
    rows = query.batch(ReadMaxRows(1000)) or []
    counts = {log: sum(row["log"] == log for row in rows) for log in ("orders", "audit")}
    assert 700 < counts["orders"] < 1200
    assert 50 < counts["audit"] < 250  # what force_tick adds to the sequence counts as backlog
    rest = [row for rows in query.batches(ReadMaxRows(3000)) for row in rows]
    assert len(rows) + len(rest) == 9900
    assert len({(row["log"], row["ev_id"]) for row in rows + rest}) == 9900


def test_empty_ticks_are_passed_at_once_while_another_log_is_read(orders: Orders, stream: Streams) -> None:
    another(orders, "audit")
    query = Query(stream(log=None, logs="orders,audit", maxTicksPerTrigger=1))
    newest = [fill(orders, 0) for _ in range(3)][-1]
    fill(orders, 1, "audit")

    rows = query.batch() or []

    assert [row["log"] for row in rows] == ["audit"]
    assert query.at["orders"]["tick"] == newest


def test_logs_may_be_named_by_a_pattern_and_join_later(orders: Orders, stream: Streams) -> None:
    another(orders, "other")
    orders.deliver("a")
    query = Query(stream(log=None, logPattern="^or"))
    assert datas(query.batch() or []) == ["a"]
    query.reader.stop()
    another(orders, "orphans")
    fill(orders, 3, "orphans")
    query = Query(stream(log=None, logPattern="^or"), query.at)
    assert {row["log"] for row in query.batch() or []} == {"orphans"}
    assert set(query.at) == {"v", "orders", "orphans"}


def test_a_stream_can_wait_for_more_but_not_for_ever(orders: Orders, stream: Streams) -> None:
    query = Query(stream(minOffsetsPerTrigger=3, maxTriggerDelay=300))
    began = time.monotonic()
    orders.deliver("a")
    while (rows := query.batch()) is None:
        assert time.monotonic() < began + 20
    assert datas(rows) == ["a"]
    assert time.monotonic() > began + 0.3
    orders.deliver("b", "c", "d", "e")
    assert len(query.batch() or []) == 4


def test_an_idle_stream_asks_at_most_four_times_a_second(
    orders: Orders, stream: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = stream(pollIntervalMs=None)
    at = as_spark(reader.initialOffset())
    reader.latestOffset(at)
    asked: list[object] = []
    run = reader._follower._control.run

    def count(statement: Statement[Any]) -> object:
        asked.append(statement)
        return run(statement)

    monkeypatch.setattr(reader._follower._control, "run", count)
    began = time.monotonic()
    while time.monotonic() < began + 1.5:
        reader.latestOffset(at)
        reader.reportLatestOffset()
    assert 1 <= len(asked) <= 4 * (time.monotonic() - began)


def waits(orders: Orders) -> bool:
    """Say whether the stream has asked to be notified, and waits."""
    return bool(
        orders.one(
            "select count(*) from pg_stat_activity where application_name = 'rowbus spark driver spark'"
            " and state = 'idle' and query ilike 'listen %%'"
        )[0]
    )


def test_a_tick_ends_the_wait_of_an_idle_stream(orders: Orders, stream: Streams) -> None:
    query = Query(stream(pollIntervalMs="1h"))
    with ThreadPoolExecutor() as threads:
        batch = threads.submit(query.batch)
        await_that(lambda: waits(orders), "the stream to wait")
        orders.deliver("a")
        assert datas(batch.result(60) or []) == ["a"]


def test_an_idle_stream_whose_session_ends_goes_on_with_another(orders: Orders, stream: Streams) -> None:
    query = Query(stream(pollIntervalMs="2s"))
    with ThreadPoolExecutor() as threads:
        batch = threads.submit(query.batch)
        await_that(lambda: waits(orders), "the stream to wait")
        orders.all(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'rowbus spark driver spark'"
        )
        orders.deliver("a")
        assert datas(batch.result(60) or []) == ["a"]


def test_progress_shows_the_lag(orders: Orders, stream: Streams) -> None:
    orders.deliver("a")
    query = Query(stream(maxTicksPerTrigger=1))
    tick = orders.deliver("b")
    query.batch()
    newest = query.reader.reportLatestOffset()["orders"]
    assert (newest["tick"], newest["seq"] - query.at["orders"]["seq"]) == (tick, 1)
    assert newest["ts"] > query.at["orders"]["ts"]


def test_the_interface_of_spark_4_0_works_too(orders: Orders, stream: Streams) -> None:
    orders.deliver("a")
    reader = stream()
    start = as_spark(reader.initialOffset())
    end = as_spark(reader.latestOffset())
    assert len(reader.partitions(start, end)) == 1
    assert as_spark(reader.latestOffset()) == end
    assert reader.partitions(end, end) == []


@pytest.mark.slow
def test_very_many_events_in_one_tick_are_read_in_ten_batches(orders: Orders, stream: Streams) -> None:
    events = effort(200_000, 1_000_000)
    fill(orders, events)
    query = Query(stream(columns="ev_id"))
    ids: set[int] = set()
    batches = 0
    for rows in query.batches(ReadMaxRows(events // 10)):
        ids.update(row["ev_id"] for row in rows)
        batches += 1
        assert len(rows) < events * 13 // 100
    assert len(ids) == events
    assert batches >= 10
