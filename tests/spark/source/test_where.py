"""The option `where` of the log source: the events read are those for which the conditions are true."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rowbus.errors import ConfigurationError
from rowbus.spark.log_source import readers as log_batch
from rowbus.spark.log_source import source as log_source
from rowbus.spark.log_source.readers import LogBatchReader
from tests.log.orders import Orders
from tests.log.queue_q import Connect
from tests.spark.source.conftest import Streams
from tests.spark.source.reading import Options, Query, Row, datas, rows_of

Batch = Callable[..., LogBatchReader]
Test = tuple[str, Callable[[Row], bool]]

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
TIMES = [NOON + timedelta(microseconds=each) for each in (-(10**11), -1, 0, 1, 999_999, 10**6, 10**11)]
ZONES = [UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-3))]
TYPES = [None, "", "a", "A", "ab", "a b", "it's", "%", "a\\", "ä", "z", "☃"]
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
}
INSERT = "select pgq.insert_event_raw('orders', null, %s, null, null, %s, 'data', %s, null, null, null)"


@pytest.fixture
def mixed(orders: Orders, connect: Connect) -> list[int]:
    """Fill the log with events of all times and types, over several ticks; give their transactions."""
    long = connect()
    long.execute(INSERT, [NOON, "long", None])
    for number in range(48):
        with orders.connection.transaction():
            orders.connection.execute(INSERT, [TIMES[number % 7], TYPES[number % 12], TYPES[number % 11]])
            orders.connection.execute(INSERT, [TIMES[number % 5], TYPES[number % 11], TYPES[number % 12]])
        if number % 8 == 7:
            orders.tick()
        if number == 30:
            long.commit()
    orders.tick()
    return [txid for (txid,) in orders.all("select distinct ev_txid from pgq.event_1 order by 1")]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


numbers = st.integers(0, 100)
times = st.builds(lambda time, zone: time.astimezone(zone), st.sampled_from(TIMES), st.sampled_from(ZONES))
texts = st.sampled_from([each for each in TYPES if each is not None])
beginnings = st.sampled_from(["", "a", "it'", "ä", "zz", " "])


def conditions_on(txids: list[int]) -> st.SearchStrategy[Test]:
    """Make conditions, with what each means in Python."""

    def compared(
        column: str, values: st.SearchStrategy[Any], write: Callable[[Any], str]
    ) -> st.SearchStrategy[Test]:
        return st.one_of(
            st.builds(
                lambda sign, value: (
                    f"{column} {sign} {write(value)}",
                    lambda row: SIGNS[sign](row[column], value),
                ),
                st.sampled_from(list(SIGNS)),
                values,
            ),
            st.builds(
                lambda some: (
                    f"{column} in ({', '.join(map(write, some))})",
                    lambda row: row[column] in some,
                ),
                st.lists(values, min_size=1, max_size=4),
            ),
            st.builds(
                lambda least, most: (
                    f"{column} between {write(least)} and {write(most)}",
                    lambda row: least <= row[column] <= most,
                ),
                values,
                values,
            ),
        )

    return st.one_of(
        compared("ev_id", numbers, str),
        compared("ev_txid", st.sampled_from([*txids, min(txids) - 1, max(txids) + 1]), str),
        compared("ev_time", times, lambda time: quoted(time.isoformat())),
        on_text("ev_type"),
        on_text("ev_extra1"),
        st.just(("ev_txid is null", lambda _row: False)),
    )


def on_text(column: str) -> st.SearchStrategy[Test]:
    """Make conditions on a column of texts."""
    nulls: list[Test] = [
        (f"{column} is null", lambda row: row[column] is None),
        (f"{column} is not null", lambda row: row[column] is not None),
    ]
    return st.one_of(
        st.builds(
            lambda value: (f"{column} = {quoted(value)}", lambda row: row[column] == value),
            texts,
        ),
        st.builds(
            lambda some: (
                f"{column} in ({', '.join(map(quoted, some))})",
                lambda row: row[column] in some,
            ),
            st.lists(texts, min_size=1, max_size=4),
        ),
        st.builds(
            lambda begin: (
                f"{column} like {quoted(begin + '%')}",
                lambda row: row[column] is not None and row[column].startswith(begin),
            ),
            beginnings,
        ),
        st.sampled_from(nulls),
    )


@pytest.mark.parametrize("small", [0, 10**9], ids=["by_blocks", "by_index"])
def test_what_is_read_is_what_a_filter_of_everything_leaves(
    batch: Batch, mixed: list[int], monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr("rowbus.spark.log_source.planner.SMALL", small)
    whole = batch()
    everything = rows_of(whole, whole.partitions())
    assert len(everything) == 97
    assert all((part.part is None) == bool(small) for part in whole.partitions())

    def compare(asked: Sequence[Test], driver: str) -> None:
        where = " and ".join(text for text, _ in asked)
        reader = batch(where=where, reader=driver)
        found = rows_of(reader, reader.partitions())
        while log_batch.holds:
            log_batch.holds.pop()[1].close()
        expected = [row for row in everything if all(holds(row) for _, holds in asked)]
        assert sorted(found, key=by_id) == sorted(expected, key=by_id), where

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        asked=st.lists(conditions_on(mixed), min_size=1, max_size=3),
        driver=st.sampled_from(["adbc", "psycopg"]),
    )
    def check(asked: list[Test], driver: str) -> None:
        compare(asked, driver)

    for each in limits(mixed):
        compare([each], "adbc")
    check()


def limits(txids: list[int]) -> Iterator[Test]:
    """Give a comparison by every sign with a value that is there, for each column that has an order."""
    values = {
        "ev_id": (7, "7"),
        "ev_time": (NOON, f"'{NOON.isoformat()}'"),
        "ev_txid": (txids[9], str(txids[9])),
    }
    for column, (value, text) in values.items():
        for sign in SIGNS:
            yield f"{column} {sign} {text}", compared_with(column, sign, value)


def compared_with(column: str, sign: str, value: object) -> Callable[[Row], bool]:
    return lambda row: SIGNS[sign](row[column], value)


def by_id(row: Row) -> int:
    number: int = row["ev_id"]
    return number


def test_only_the_ticks_that_can_hold_a_transaction_are_read(
    orders: Orders, batch: Batch, connect: Connect
) -> None:
    ticks = [orders.deliver(each) for each in "abcd"]
    [(txid,)] = orders.all("select ev_txid from pgq.event_1 where ev_data = 'c'")

    [part] = batch(where=f"ev_txid = {txid}").partitions()

    assert (part.span.begin.tick, part.span.end.tick) == (ticks[1], ticks[2])
    assert list(batch(where="ev_txid < 0").partitions()) == []


def test_a_stream_gives_what_its_conditions_leave_and_goes_on_with_others(
    orders: Orders, stream: Streams
) -> None:
    orders.register("spark")
    orders.connection.execute("select pgq.insert_event('orders', 'heartbeat', 'x')")
    orders.deliver("a")
    first = stream(where="ev_type = 'order'")
    query = Query(first)
    assert [datas(rows) for rows in query.batches()] == [["a"]]
    orders.connection.execute("select pgq.insert_event('orders', 'heartbeat', 'y')")
    orders.deliver("b")
    first.stop()

    rest = Query(stream(where="ev_type like 'heart%'"), query.at)

    assert [datas(rows) for rows in rest.batches()] == [["y"]]


@pytest.mark.one_version
def test_conditions_may_be_on_columns_that_are_not_read(orders: Orders, batch: Batch) -> None:
    orders.deliver("a", "b")

    reader = batch(columns="ev_data", where="ev_id = 2 and ev_type = 'order'")

    assert rows_of(reader, reader.partitions()) == [{"ev_data": "b"}]


@pytest.mark.one_version
@pytest.mark.parametrize("driver", ["adbc", "psycopg"])
def test_a_value_is_data_and_never_sql(orders: Orders, batch: Batch, driver: str) -> None:
    evil = "'; drop table seen; -- %s :\\"
    orders.connection.execute("select pgq.insert_event('orders', %s, 'a')", [evil])
    orders.tick()

    reader = batch(where=f"ev_type = {quoted(evil)}", reader=driver)

    assert datas(rows_of(reader, reader.partitions())) == ["a"]


@pytest.mark.one_version
def test_a_wrong_condition_is_refused_before_anything_is_read(options: Options) -> None:
    given_options = options(where="ev_data = 'x'", dsn="postgresql://127.0.0.1:1/none")
    with pytest.raises(ConfigurationError, match="'ev_data'"):
        log_source.schema(given_options)
