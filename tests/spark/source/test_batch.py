"""The log source as a batch, and what both kinds of reading have in common: columns, positions, drivers, errors."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

import rowbus
from rowbus.database.postgresql.arrow import Access, arrow_session
from rowbus.database.statements import Query as Text
from rowbus.errors import (
    ConfigurationError,
    ConnectionLostError,
    LogNotFoundError,
    LostPositionError,
    StorageError,
)
from rowbus.spark.log_source import readers as log_batch
from rowbus.spark.log_source import source as log_source
from rowbus.spark.log_source.options import COLUMNS, read_settings
from rowbus.spark.log_source.read import arrow_schema
from rowbus.spark.log_source.readers import LogBatchReader
from tests.fixtures.every import every
from tests.log.orders import Orders
from tests.spark.source.conftest import Streams
from tests.spark.source.reading import Options, Row, datas, rows_of

Batch = Callable[..., LogBatchReader]


@pytest.fixture
def ticks(orders: Orders) -> list[int]:
    """Deliver a, b and c in a batch each, and give the ticks: before and after each."""
    (first,) = orders.one("select max(tick_id) from pgq.tick")
    return [first, orders.deliver("a"), orders.deliver("b"), orders.deliver("c")]


def read(reader: LogBatchReader) -> list[Row]:
    return rows_of(reader, reader.partitions())


def test_all_that_is_retained_and_ticked_is_read(orders: Orders, batch: Batch, ticks: list[int]) -> None:
    orders.put("not ticked")
    rows = read(batch())
    assert datas(rows) == ["a", "b", "c"]
    assert sorted(row["tick_id"] for row in rows) == ticks[1:]
    nothing = batch(startingOffsets="latest")
    assert list(nothing.partitions()) == []
    assert list(nothing.read(InputPartition(None))) == []  # what Spark makes of no partitions


@pytest.mark.parametrize("reader", ["adbc", "psycopg"])
def test_every_event_is_read_by_blocks_whichever_of_its_columns_have_values(
    orders: Orders, batch: Batch, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    monkeypatch.setattr("rowbus.spark.log_source.planner.SMALL", 0)
    (table,) = orders.one("select pgq.current_event_table('orders')")
    orders.connection.execute(
        f"""insert into {table} (ev_id, ev_time, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
        select n, now(), nullif(n & 1, 0), case when n & 2 > 0 then 'two' end, case when n & 4 > 0 then 'four' end,
            case when n & 8 > 0 then 'eight' end, case when n & 16 > 0 then '' end, case when n & 32 > 0 then 'x' end,
            case when n & 64 > 0 then 'y' end
        from generate_series(1, 128) as n"""
    )
    tick = orders.tick()
    columns = (
        "ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
    )

    rows = read(batch(minPartitions=2, reader=reader))

    assert {(row["log"], row["tick_id"]) for row in rows} == {("orders", tick)}
    found = sorted(tuple(row[name] for name in columns.split(", ")) for row in rows)
    assert found == orders.all(f"select {columns} from {table} order by ev_id")


@pytest.mark.parametrize("extra", [None, "x"])
def test_blocks_are_looked_at_again_only_for_events_that_were_left_out(
    orders: Orders, batch: Batch, extra: str | None
) -> None:
    orders.connection.execute("select pgq.insert_event('orders', 'a', 'b', null, null, null, %s)", (extra,))
    orders.tick()
    [part] = batch(minPartitions=2).partitions()
    first, again = (query.native for query in part.queries(list(COLUMNS)))
    with orders.connection.transaction():
        orders.connection.execute(first)
        plan = str(orders.connection.execute(b"explain analyze " + again).fetchall())
    assert ("never executed" in plan) == (extra is None)


def test_a_range_is_named_by_ticks_times_words_and_offsets(
    orders: Orders, batch: Batch, stream: Streams, ticks: list[int]
) -> None:
    def at(tick: int) -> str:
        return str(orders.one("select tick_time from pgq.tick where tick_id = %s", tick)[0].isoformat())

    offset = json.dumps(stream(startingOffsets=json.dumps({"orders": ticks[1]})).initialOffset())
    for options, expected in (
        ({"startingOffsets": json.dumps({"orders": {"tick": ticks[1]}})}, ["b", "c"]),
        (
            {
                "startingOffsets": json.dumps({"orders": -2}),
                "endingOffsets": json.dumps({"orders": ticks[2]}),
            },
            ["a", "b"],
        ),
        ({"startingOffsets": offset}, ["b", "c"]),
        ({"endingOffsets": offset}, ["a"]),
        ({"startingTimestamp": at(ticks[2])}, ["c"]),
        ({"startingTimestamp": "2001-01-01"}, ["a", "b", "c"]),
        ({"endingTimestamp": at(ticks[2])}, ["a", "b"]),
        ({"startingOffsetsByTimestamp": json.dumps({"orders": at(ticks[1])})}, ["b", "c"]),
        ({"startingTimestamp": "2999-01-01", "startingOffsetsByTimestampStrategy": "latest"}, []),
    ):
        assert datas(read(batch(**options))) == expected, options


def test_a_consumer_s_batch_is_what_it_has_yet_to_be_given(
    orders: Orders, batch: Batch, ticks: list[int]
) -> None:
    orders.register("spark")
    orders.deliver("d")
    assert datas(read(batch(consumer="spark"))) == ["d"]
    assert orders.position("spark") == (ticks[-1], None)


@every(
    "wrong, error",
    [
        ({"startingOffsets": '{"orders": 99}'}, LostPositionError),
        ({"startingOffsets": "nowhere"}, ConfigurationError),
        ({"startingOffsets": '{"orders": "x"}'}, ConfigurationError),
        ({"startingOffsets": '{"orders": true}'}, ConfigurationError),
        ({"startingOffsets": '{"orders": 9223372036854775808}'}, ConfigurationError),
        ({"startingOffsets": '{"order": -1}'}, ConfigurationError),
        ({"endingOffsetsByTimestamp": '{"order": "2026-01-01"}'}, ConfigurationError),
        ({"startingOffsets": "latest", "startingTimestamp": "2001-01-01"}, ConfigurationError),
        ({"startingTimestamp": "99999999999999999999"}, ConfigurationError),
        ({"log": "or\0ders"}, ConfigurationError),
        ({"startingTimestamp": "yesterday"}, ConfigurationError),
        ({"startingTimestamp": "2999-01-01"}, ConfigurationError),
        ({"endingOffsets": "earliest"}, ConfigurationError),
        ({"columns": "ev_id,nothing"}, ConfigurationError),
        ({"log": "nowhere"}, LogNotFoundError),
        ({"log": None, "logPattern": "^nothing$"}, LogNotFoundError),
    ],
)
@pytest.mark.one_version
def test_what_cannot_be_read_is_said(
    batch: Batch, ticks: list[int], wrong: dict[str, str | None], error: type[Exception]
) -> None:
    with pytest.raises(error):
        batch(**wrong).partitions()


def test_a_column_that_is_named_twice_is_named_in_the_refusal() -> None:
    with pytest.raises(ConfigurationError, match="each once: not ev_id, ev_id"):
        read_settings({"log": "orders", "columns": "ev_id,ev_id"}, stream=False)


@pytest.mark.one_version
def test_a_stream_needs_a_consumer(options: Options) -> None:
    with pytest.raises(ConfigurationError, match="consumer"):
        log_source.stream_reader(options(consumer=None), log_source.schema(options()))


@pytest.mark.parametrize("driver", ["adbc", "psycopg"])
def test_batches_have_exactly_the_columns_and_types_spark_expects(
    orders: Orders, batch: Batch, ticks: list[int], driver: str
) -> None:
    orders.connection.execute("select pgq.insert_event('orders', null, null, 'ä', '', e'\\n', '€')")
    orders.tick()
    for names in (tuple(COLUMNS), ("ev_data", "log"), ("tick_id",), ("ev_extra4", "ev_time")):
        reader = batch(columns=",".join(names), reader=driver)
        schema = arrow_schema({name: COLUMNS[name] for name in names})
        found = [each for part in reader.partitions() for each in reader.read(part)]
        assert all(each.schema.equals(schema) for each in found)
        assert sum(each.num_rows for each in found) == 4
        assert schema.names == list(names)


def test_both_drivers_read_the_same(orders: Orders, batch: Batch, ticks: list[int]) -> None:
    orders.connection.execute("select pgq.insert_event('orders', null, null, 'ä', '', e'\\n', '€')")
    orders.tick()
    assert read(batch(reader="adbc")) == read(batch(reader="psycopg"))


def test_what_a_batch_is_reading_is_not_emptied(orders: Orders, batch: Batch, ticks: list[int]) -> None:
    reader = batch()
    partitions = reader.partitions()
    with pytest.raises(psycopg.errors.LockNotAvailable), orders.connection.transaction():
        orders.connection.execute("lock table pgq.event_1_0 in access exclusive mode nowait")
    assert datas(rows_of(reader, partitions)) == ["a", "b", "c"]
    assert len(log_batch.holds) == 1


def test_errors_of_the_drivers_are_ours(orders: Orders) -> None:
    wrong = Text(b"select 1/0", b"select 1/0", (), "Could not divide", prepare=False)
    fine = Text(b"select 1", b"select 1", (), "Could not count", prepare=False)
    for driver in ("adbc", "psycopg"):
        with (
            pytest.raises(StorageError, match="Could not divide") as caught,
            arrow_session(Access(orders.dsn, driver), fine) as session,
        ):
            list(session.batches(wrong))
        assert caught.value.sqlstate == "22012"
        nowhere = Access("postgresql://127.0.0.1:1/none", driver, retries=1, retry_wait=0.01)
        with pytest.raises(ConnectionLostError), arrow_session(nowhere, fine):
            pass


def test_a_slow_statement_is_ended(
    orders: Orders, batch: Batch, ticks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = batch(statementTimeoutMs=100)
    [partition] = reader.partitions()
    slow = Text(b"", b"select pg_sleep(20)::text as ev_data", (), "Too slow", prepare=False)
    monkeypatch.setattr(partition, "queries", lambda _columns: [slow])
    with pytest.raises(StorageError, match=r"Too slow.*timeout"):
        list(reader.read(partition))


def test_types_are_cast_once_and_a_missing_column_is_an_error() -> None:
    from rowbus.database.postgresql.arrow import conform  # noqa: PLC0415

    batch = pa.RecordBatch.from_pydict({"b": pa.array([1], pa.int32()), "a": pa.array(["x"])})
    types: dict[str, pa.DataType] = {"a": pa.string(), "b": pa.int64()}
    schema = pa.schema(types)
    assert conform(batch, schema).schema.equals(schema)
    with pytest.raises(KeyError):
        conform(batch, pa.schema([("c", pa.string())]))


def test_times_are_utc_and_spark_may_take_its_time_whatever_the_database_sets(
    orders: Orders, batch: Batch, ticks: list[int]
) -> None:
    for setting in ("timezone to 'Asia/Kolkata'", "idle_in_transaction_session_timeout to '300ms'"):
        orders.connection.execute(f"alter database {orders.connection.info.dbname} set {setting}")
    for driver in ("adbc", "psycopg"):
        slow = batch(reader=driver)
        for partition in slow.partitions():
            for _rows in slow.read(partition):
                time.sleep(0.5)  # long sleep: longer than the database allows
        [row, *_] = read(batch(reader=driver))
        assert row["ev_time"].utcoffset() == datetime.now(UTC).utcoffset()
        assert abs(row["ev_time"] - datetime.now(UTC)).total_seconds() < 300
    assert isinstance(rowbus.Log(orders.dsn, "orders").ticks()[0].time, datetime)
