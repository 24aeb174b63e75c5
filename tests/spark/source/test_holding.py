"""A stream's holds: what it keeps, lets go of, and says when something was lost or somebody else is there."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

import rowbus
from rowbus.database.postgresql.database import Database
from rowbus.database.statements import Query as Text
from rowbus.errors import ConsumerBusyError, DataLossError
from rowbus.spark.log_source.hold import LogHold
from rowbus.spark.log_source.read import LogPartition
from rowbus.spark.log_source.readers import LogBatchReader
from rowbus.spark.pipelines.release import put_stranger_aside, release_committed
from tests.log.orders import SCRIPT, Orders
from tests.log.queue_q import Connect
from tests.spark.source.conftest import Streams
from tests.spark.source.reading import Offset, Query, as_spark, between, datas

PADDING = "x" * 600
Batches = Callable[..., LogBatchReader]


def position(orders: Orders, consumer: str = "spark") -> int | None:
    found = orders.all(
        "select s.sub_last_tick from pgq.subscription s join pgq.consumer on co_id = sub_consumer where co_name = %s",
        consumer,
    )
    return found[0][0] if found else None


def rotate(orders: Orders) -> bool:
    """Rotate the log's tables if nothing holds them; say whether they were."""
    orders.connection.execute("update pgq.queue set queue_rotation_period = '0'")
    [before] = orders.one("select queue_cur_table from pgq.queue")
    orders.connection.execute("select pgq.maint_rotate_tables_step1('orders')")
    orders.connection.execute("select pgq.maint_rotate_tables_step2()")
    [after] = orders.one("select queue_cur_table from pgq.queue")
    return bool(before != after)


def test_what_is_not_durable_is_not_released(orders: Orders, stream: Streams) -> None:
    first = orders.one("select max(tick_id) from pgq.tick")[0]
    orders.deliver("a")
    second = orders.one("select max(tick_id) from pgq.tick")[0]
    query = Query(stream())
    query.batch()
    assert position(orders) == first
    orders.deliver("b")
    query.batch()  # Spark asks for a batch from `second` on, so that is durable
    assert position(orders) == second


def test_with_asynchronous_progress_only_a_commit_releases(orders: Orders, stream: Streams) -> None:
    first = orders.one("select max(tick_id) from pgq.tick")[0]
    tick = orders.deliver("a")
    query = Query(stream(releaseOn="commit"))
    query.batch()
    query.batch()
    assert position(orders) == first
    query.reader.commit(query.at)
    assert position(orders) == tick


def test_releasing_never_goes_backwards_nor_touches_others(orders: Orders, stream: Streams) -> None:
    orders.register("other")
    at_other = position(orders, "other")
    first = orders.deliver("a")
    second = orders.deliver("b")
    stream().initialOffset()
    hold = LogHold("orders", "spark")
    with Database(orders.dsn).session() as session:
        for tick, moved in ((second, second), (first, None), (second + 5, None)):
            with session.transaction():
                session.run(hold.lock_hold())
                assert session.run(hold.move_up_hold(tick)) == moved
    assert position(orders) == second
    assert position(orders, "other") == at_other


def test_events_are_held_while_they_are_unread_and_rotation_goes_on_when_they_are_read(
    orders: Orders, stream: Streams
) -> None:
    query = Query(stream())
    for data in "abc":
        orders.deliver(data)
        query.batch()
    assert query.batch() is None
    assert rotate(orders)
    orders.deliver("d")
    assert not rotate(orders)
    assert datas(query.batch() or []) == ["d"]
    assert not rotate(orders)
    assert query.batch() is None
    assert rotate(orders)


def test_an_idle_stream_does_not_block_rotation_for_ever(orders: Orders, stream: Streams) -> None:
    query = Query(stream())
    rotations = 0
    for _ in range(8):
        orders.tick()
        while (rows := query.batch()) is not None:
            assert rows == []
        rotations += rotate(orders)
    assert rotations > 3
    orders.deliver("a")
    assert datas(query.batch() or []) == ["a"]


def test_empty_ticks_are_no_batches(orders: Orders, stream: Streams) -> None:
    orders.deliver("a")
    query = Query(stream())
    query.batch()
    for _ in range(3):
        orders.tick()
        assert query.batch() is None
    orders.deliver("b")
    assert datas(query.batch() or []) == ["b"]


def test_a_second_query_of_the_same_consumer_fails_at_once_and_says_who_is_there(
    orders: Orders, stream: Streams
) -> None:
    stream().initialOffset()
    with pytest.raises(ConsumerBusyError, match=r"rowbus spark driver spark as \w+ \(process") as caught:
        stream(lockTimeoutMs=0).initialOffset()
    assert (caught.value.log, caught.value.consumer) == ("orders", "spark")
    stream(consumer="other").initialOffset()


def test_the_name_is_free_when_the_query_has_ended(orders: Orders, stream: Streams) -> None:
    first = stream()
    begin = first.initialOffset()
    first.stop()
    assert stream().initialOffset() == begin


def test_a_consumer_that_has_a_batch_open_is_busy(orders: Orders, stream: Streams) -> None:
    orders.register("spark")
    orders.deliver("a")
    orders.one("select pgq.next_batch('orders', 'spark')")
    with pytest.raises(ConsumerBusyError, match="seek"):
        stream().initialOffset()


def test_a_lost_connection_is_replaced_and_the_lock_taken_again(orders: Orders, stream: Streams) -> None:
    query = Query(stream())
    orders.one(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where application_name = 'rowbus spark driver spark'"
    )
    orders.deliver("a")
    assert datas(query.batch() or []) == ["a"]
    with pytest.raises(ConsumerBusyError):
        stream(lockTimeoutMs=0).initialOffset()


def test_a_consumer_that_is_unregistered_under_its_stream_is_registered_again(
    orders: Orders, stream: Streams, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(stream())
    kept = orders.deliver("a")
    query.batch()
    rowbus.Log(orders.dsn, "orders").unregister("spark")
    assert query.batch() is None
    assert position(orders) == kept
    assert "is not a consumer of log orders any more" in caplog.text
    rowbus.Log(orders.dsn, "orders").unregister("spark")
    monkeypatch.setattr(query.reader._follower._keeper, "_look_at", 0.0)
    assert query.batch() is None  # an idle stream notices, too, from time to time
    assert position(orders) == kept
    orders.deliver("b")
    assert datas(query.batch() or []) == ["b"]


def lose(orders: Orders, consumer: str = "spark") -> None:
    """Have the consumer's registration removed, and its events with it."""
    rowbus.Log(orders.dsn, "orders").unregister(consumer)
    for _ in range(3):
        assert rotate(orders)
        orders.deliver("later")


def test_lost_events_stop_the_stream(orders: Orders, stream: Streams) -> None:
    query = Query(stream())
    query.reader.stop()
    orders.deliver("lost")
    lose(orders)
    with pytest.raises(DataLossError, match="failOnDataLoss=false") as caught:
        Query(stream(), query.at).batch()
    assert caught.value.tick == query.at["orders"]["tick"]
    with pytest.raises(DataLossError):
        stream(consumer="fresh").partitions(query.at, as_spark(stream(consumer="other").initialOffset()))


def test_lost_events_are_left_out_by_request_and_counted(
    orders: Orders, stream: Streams, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(stream())
    query.reader.stop()
    orders.deliver(*["lost"] * 30)
    lose(orders)
    with caplog.at_level(logging.WARNING, "rowbus.spark"):
        rows = Query(stream(failOnDataLoss="false"), query.at).batch() or []
    assert set(datas(rows)) == {"later"}
    assert "events were lost" in caplog.text


def test_a_log_that_was_made_anew_is_a_loss(orders: Orders, stream: Streams) -> None:
    orders.deliver("a", "b")
    query = Query(stream())
    query.batch()
    query.reader.stop()
    orders.connection.execute("select pgq.unregister_consumer('orders', 'spark')")
    orders.connection.execute("select pgq.drop_queue('orders')")
    orders.connection.execute("drop table seen")
    orders.connection.execute(SCRIPT)
    for data in "cde":
        orders.deliver(data)
    failing = stream()
    with pytest.raises(DataLossError):
        Query(failing, query.at).batch()
    failing.stop()
    assert datas(Query(stream(failOnDataLoss="false"), query.at).batch() or []) == ["c", "d", "e"]


def restore(orders: Orders, tick: int) -> None:
    """Have the log be as it was at a tick, as a restored database has it."""
    orders.connection.execute(
        """
        delete from pgq.event_template where ev_txid >= (
            select txid_snapshot_xmax(tick_snapshot) from pgq.tick where tick_id = %(tick)s
        );
        delete from pgq.tick where tick_id > %(tick)s;
        update pgq.subscription set sub_last_tick = least(sub_last_tick, %(tick)s);
        select setval(queue_tick_seq, %(tick)s) from pgq.queue;
        """.replace("%(tick)s", str(tick))
    )


def same_snapshot(orders: Orders, tick: Offset) -> None:
    orders.connection.execute(
        "update pgq.tick set tick_snapshot = %s where tick_id = %s", [tick["snap"], tick["tick"]]
    )


@pytest.mark.parametrize("ticks", [0, 1, 3])
def test_a_restored_database_is_another_history_however_far_it_has_come(
    orders: Orders, stream: Streams, batch: Batches, ticks: int, tmp_path: Path
) -> None:
    query = Query(stream())
    query.batch()
    kept = orders.deliver("kept")
    query.batch()
    before = query.at
    orders.deliver("ghost")
    query.batch()
    query.reader.stop()
    restore(orders, kept)
    for number in range(ticks):
        orders.deliver(f"new {number}")
    if ticks == 1:
        same_snapshot(orders, query.at["orders"])  # then its time tells

    failing = stream()
    with pytest.raises(DataLossError, match=r"is not the one that spark has read.*restored"):
        Query(failing, query.at).batch()
    failing.stop()
    with pytest.raises(DataLossError, match="restored") as caught:
        between(stream(consumer="other"), before, query.at)
    assert caught.value.tick == query.at["orders"]["tick"]
    with pytest.raises(DataLossError, match="restored"):
        batch(startingOffsets=json.dumps(query.at)).partitions()
    checkpoint(tmp_path / "old", query.at)
    with pytest.raises(DataLossError, match="restored"):
        release_committed(tmp_path / "old", consumer="spark", dsn=orders.dsn)
    assert put_stranger_aside(tmp_path / "old", "spark", orders.dsn) == tmp_path / "old.until-batch-0"
    checkpoint(tmp_path / "own", before)
    assert put_stranger_aside(tmp_path / "own", "spark", orders.dsn) is None
    assert (position(orders) or 0) <= kept
    rows = Query(stream(failOnDataLoss="false"), query.at).batch() or []
    assert datas(rows)[0] == "kept"


def checkpoint(folder: Path, end: Offset) -> None:
    """Write what Spark writes of a batch that is committed."""
    for name, text in (("offsets", f"v1\n{{}}\n{json.dumps(end)}"), ("commits", "v1\n{}")):
        (folder / name).mkdir(parents=True)
        (folder / name / "0").write_text(text)


def test_a_table_emptied_after_planning_is_a_loss_not_a_gap(orders: Orders, stream: Streams) -> None:
    orders.deliver("a")
    reader = stream()
    start = reader.initialOffset()
    [partition] = reader.partitions(start, as_spark(reader.latestOffset(start)))
    orders.connection.execute("truncate pgq.event_1_0")
    with pytest.raises(DataLossError, match="emptied"):
        list(reader.read(partition))


def test_a_table_is_not_emptied_while_it_is_read(orders: Orders, stream: Streams) -> None:
    orders.deliver("a")
    reader = stream()
    start = reader.initialOffset()
    [partition] = reader.partitions(start, as_spark(reader.latestOffset(start)))
    reading = reader.read(partition)
    assert isinstance(reading, Generator)
    next(reading)
    with pytest.raises(Exception, match="lock"):
        orders.connection.execute("set lock_timeout to 50; truncate pgq.event_1_0")
    reading.close()
    orders.connection.execute("truncate pgq.event_1_0")


def test_a_cut_survives_a_restart_and_not_a_rewrite(orders: Orders, stream: Streams) -> None:
    orders.deliver(*[PADDING] * 200)
    query = Query(stream(maxOffsetsPerTrigger=50))
    query.batch(ReadMaxRows(50))
    assert "to" in query.at["orders"]
    query.reader.stop()
    orders.connection.execute("vacuum full pgq.event_1_0")
    with pytest.raises(DataLossError):
        Query(stream(), query.at).batch(ReadMaxRows(50))


def test_retried_events_are_their_consumers_alone(orders: Orders, stream: Streams) -> None:
    orders.register("worker")
    orders.register("spark")
    orders.deliver(*[PADDING] * 300)
    for consumer, count in (("worker", 1), ("spark", 300)):
        (batch,) = orders.one("select pgq.next_batch('orders', %s)", consumer)
        query = "select pgq.event_retry(%s, ev_id, 0) from (select ev_id from pgq.get_batch_events(%s) limit %s) e"
        orders.all(query, batch, batch, count)
        orders.one("select pgq.finish_batch(%s)", batch)
    orders.redeliver()
    batches = list(Query(stream(maxBytesPerTrigger=15_000)).batches())
    assert [row["ev_retry"] for rows in batches for row in rows] == [1] * 300
    assert max(map(len, batches)) * len(PADDING) <= 15_000
    assert len(Query(stream(consumer="third")).batch() or []) == 300


def test_a_commit_that_fails_for_a_moment_does_not_fail_the_query(
    orders: Orders, stream: Streams, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(stream(releaseOn="commit"))
    tick = orders.deliver("a")
    query.batch()

    def fail(*_args: object) -> None:
        raise rowbus.StorageError("away", sqlstate="57P01", transient=True)

    with monkeypatch.context() as patch:
        patch.setattr("rowbus.spark.log_source.hold.Control.run_last", fail)
        query.reader.commit(query.at)
    assert "trying again" in caplog.text
    query.reader.commit(query.at)
    assert position(orders) == tick


def test_between_two_offsets_nothing_moves(orders: Orders, stream: Streams) -> None:
    orders.deliver("a")
    reader = stream()
    start = as_spark(reader.initialOffset())
    end = as_spark(reader.latestOffset(start))
    before = position(orders)
    assert between(reader, start, end) == between(reader, start, end) != []
    assert between(reader, start, start) == []
    assert position(orders) == before


def test_a_table_emptied_between_the_check_and_the_reading_is_a_loss_too(
    orders: Orders, stream: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.deliver("a")
    reader = stream()
    start = reader.initialOffset()
    [partition] = reader.partitions(start, as_spark(reader.latestOffset(start)))
    assert isinstance(partition, LogPartition)
    queries = partition.queries

    def empty_first(columns: Sequence[str]) -> list[Text]:
        orders.connection.execute("truncate pgq.event_1_0")
        return queries(columns)

    monkeypatch.setattr(partition, "queries", empty_first)
    with pytest.raises(DataLossError, match="emptied"):
        list(reader.read(partition))


def test_a_transaction_older_than_the_rotation_is_found_in_the_previous_table(
    orders: Orders, stream: Streams, connect: Connect
) -> None:
    orders.tick()
    old = connect()
    old.execute("select pgq.insert_event('orders', 'order', 'old')")
    assert rotate(orders)
    orders.deliver("new")
    query = Query(stream(startingOffsets="latest"))
    old.commit()
    orders.deliver("newer")
    assert datas(query.batch() or []) == ["old", "newer"]
