"""The option `changes`: the changes of a captured table, typed by the catalogue, as a batch and as a stream."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from rowbus.errors import ConfigurationError, MessageDeserializationError
from rowbus.spark.log_source import source as log_source
from rowbus.spark.log_source.changes import RowDecoder, change_layout
from rowbus.spark.log_source.readers import LogBatchReader
from tests.log.orders import Orders
from tests.spark.lake.values import CASES, TYPES
from tests.spark.source.conftest import Streams
from tests.spark.source.reading import Options, Query, Row, as_spark, between, rows_of

pytestmark = pytest.mark.one_version

Batch = Callable[..., LogBatchReader]
ONE = {"id": 1, "total": Decimal("1.50"), "note": None}
TWO = {"id": 1, "total": Decimal("2.00"), "note": "ł"}


class Shop:
    """A captured table `shop.orders`, and statements on it."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self.run(
            "create schema shop",
            "create table shop.orders (id int primary key, total numeric(12, 2), note text)",
        )
        self.capture()

    def capture(self, table: str = "shop.orders", form: str = "json", *arguments: str) -> None:
        self._orders.connection.execute(
            "select pgq.capture_table(%s, 'orders', %s, %s)", [table, form, list(arguments)]
        )

    def run(self, *statements: str) -> None:
        """Run statements, each in its own transaction, and tick."""
        for statement in statements:
            self._orders.connection.execute(statement.encode())
        self._orders.tick()

    def change(self) -> None:
        """Insert a row, update it, delete it, and empty the table."""
        self.run(
            "insert into shop.orders values (1, 1.50)",
            "update shop.orders set total = 2, note = 'ł'",
            "delete from shop.orders",
            "truncate shop.orders",
        )


@pytest.fixture
def shop(orders: Orders) -> Shop:
    return Shop(orders)


@pytest.fixture
def changes(batch: Batch) -> Callable[..., list[Row]]:
    """Give what reads the changes of `shop.orders` as a batch, in their order."""

    def read(**others: object) -> list[Row]:
        reader = batch(**{"changes": "shop.orders", **others})
        return sorted(rows_of(reader, reader.partitions()), key=lambda row: row["ev_id"])

    return read


def told(rows: list[Row]) -> list[tuple[Any, Any, Any]]:
    return [(row["op"], row["before"], row["after"]) for row in sorted(rows, key=lambda row: row["ev_id"])]


# ------------------------------------------------------------------------------------------------------ what is told


@pytest.mark.parametrize("form", ["json", "url"])
@pytest.mark.parametrize("arguments", [(), ("backup",)], ids=["without_the_old_row", "with_the_old_row"])
def test_the_rows_of_each_operation_are_what_the_trigger_wrote(
    shop: Shop, changes: Callable[..., list[Row]], form: str, arguments: tuple[str, ...]
) -> None:
    shop.capture("shop.orders", form, *arguments)
    shop.change()

    rows = changes()

    assert told(rows) == [
        ("insert", None, ONE),
        ("update", ONE if arguments else None, TWO),
        ("delete", TWO, None),
        ("truncate", None, None),
    ]
    assert list(rows[0]) == [
        "op",
        "before",
        "after",
        "transaction_time",
        "transaction",
        "ev_id",
        "tick_id",
        "_corrupt_record",
    ]
    assert [row["_corrupt_record"] for row in rows] == [None] * 4


def test_a_change_has_the_time_and_the_number_of_its_transaction_and_the_tick_that_first_shows_it(
    shop: Shop, orders: Orders, changes: Callable[..., list[Row]]
) -> None:
    with orders.connection.transaction():
        orders.connection.execute("insert into shop.orders values (1), (2)")
        began, number = orders.one("select now(), txid_current()")
    first = orders.tick()
    shop.run("insert into shop.orders values (3)")

    rows = changes()

    assert [(row["transaction"], row["transaction_time"]) for row in rows[:2]] == [(number, began)] * 2
    assert [row["tick_id"] for row in rows] == [first, first, first + 1]
    assert rows[2]["transaction"] > number


def test_a_stream_gives_the_changes_of_the_table_and_nothing_else(
    shop: Shop, orders: Orders, stream: Streams
) -> None:
    shop.run("create table shop.others (id int primary key)", "create table orders (id int primary key)")
    shop.capture("shop.others")
    shop.capture("orders")
    query = Query(stream(changes="shop.orders"))
    list(query.batches())

    shop.run("insert into shop.others values (1)", "insert into orders values (1)")
    orders.deliver("of a user", key="shop.orders")
    shop.change()
    rows = [row for found in query.batches() for row in found]

    assert [operation for operation, _, _ in told(rows)] == ["insert", "update", "delete", "truncate"]
    shop.run("insert into shop.orders values (1, 1.50)")
    assert told(next(query.batches())) == [("insert", None, ONE)]


def test_a_table_without_a_schema_is_that_of_public(orders: Orders, batch: Batch) -> None:
    orders.connection.execute("create table items (id int primary key)")
    orders.connection.execute("select pgq.capture_table('items', 'orders')")
    orders.connection.execute("insert into items values (1)")
    orders.tick()

    reader = batch(changes="items")

    assert told(rows_of(reader, reader.partitions())) == [("insert", None, {"id": 1})]


def test_the_database_looks_for_the_table_s_events(shop: Shop, batch: Batch) -> None:
    shop.change()

    [part] = batch(changes="shop.orders", where="ev_id > 2").partitions()

    assert part.where.of("ev_extra1").one_of == frozenset({"shop.orders"})
    assert part.where.of("ev_id").lowest == 3


def test_conditions_are_added_to_that_on_the_table(shop: Shop, changes: Callable[..., list[Row]]) -> None:
    shop.change()

    assert [row["op"] for row in changes(where="ev_id in (2, 4)")] == ["update", "truncate"]
    assert changes(where="ev_extra1 = 'public.orders'") == []


def test_a_changed_key_is_one_change_with_both_keys(shop: Shop, changes: Callable[..., list[Row]]) -> None:
    """Triggers tell of none, other programs may; a captured one is a delete and an insert."""
    shop.run("insert into shop.orders values (1)")
    shop.run(
        """select pgq.insert_event('orders', '{"op":"UPDATE","table":["shop","orders"],"pkey":["id"]}',
        '{"id":7,"total":"1.00"}', 'shop.orders', '{"id":1,"total":"1.00"}', null, null)"""
    )

    operation, before, after = told(changes())[1]
    assert (operation, before["id"], after["id"]) == ("update", 1, 7)
    shop.run("update shop.orders set id = 2")
    assert [
        (operation, before and before["id"], after and after["id"])
        for operation, before, after in told(changes())[2:]
    ] == [("delete", 1, None), ("insert", None, 2)]


# ------------------------------------------------------------------------------------------------------------ types


def columns_of(options: dict[str, str]) -> pa.StructType:
    """Return Arrow's type of a row of the changes."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - Spark's own

    schema: Any = to_arrow_schema(log_source.schema(options), timezone="UTC")
    kind: pa.StructType = schema.field("after").type
    return kind


@pytest.mark.parametrize("form", ["json", pytest.param("url", marks=pytest.mark.slow)])
def test_a_value_of_every_type_comes_without_loss_or_shows_the_event(
    orders: Orders, batch: Batch, options: Options, form: str
) -> None:
    connection = orders.connection
    connection.execute(TYPES)
    connection.execute("set timezone = 'Asia/Tokyo'")
    expected: dict[str, tuple[pa.DataType, object]] = {}
    for number, (type_, value, kind, said) in enumerate(CASES):
        connection.execute(f"create table t{number} (id int primary key, v {type_})".encode())
        connection.execute("select pgq.capture_table(%s, 'orders', %s)", [f"t{number}", form])
        connection.execute(f"insert into t{number} values (1, {value}), (2, null)".encode())
        expected[f"t{number}"] = (kind, value.strip("'") if said is None else said)
    orders.tick()

    wrong: list[object] = []
    for table, (kind, found) in expected.items():
        declared: Any = columns_of(options(changes=table)).field("v").type
        reader = batch(changes=table)
        one, two = sorted(rows_of(reader, reader.partitions()), key=lambda row: row["ev_id"])
        assert two["after"] == {"id": 2, "v": None}, table
        fits = same_kind(declared, kind)
        if one["after"] != {"id": 1, "v": found if fits else None} or bool(one["_corrupt_record"]) == fits:
            wrong.append((table, kind, found, one))
    assert not wrong, wrong


def same_kind(one: Any, other: Any) -> bool:  # noqa: ANN401 - Arrow's types, whose stubs are partial
    """Compare types but for the names that lists give to their elements."""
    if pa.types.is_list(one) and pa.types.is_list(other):
        return bool(one.value_type == other.value_type)
    return bool(one == other)


def test_domains_over_numbers_and_booleans_come_as_what_they_are_over(orders: Orders, batch: Batch) -> None:
    """The trigger writes them as text, unlike what they are over."""
    for statement in (
        "create domain small as int",
        "create domain smaller as small",
        "create domain truth as boolean",
        "create table domains (id small primary key, n smaller, b truth)",
        "select pgq.capture_table('domains', 'orders')",
        "insert into domains values (1, 2, true)",
    ):
        orders.connection.execute(statement.encode())
    orders.tick()

    reader = batch(changes="domains")

    assert told(rows_of(reader, reader.partitions())) == [("insert", None, {"id": 1, "n": 2, "b": True})]


def test_rows_are_the_same_whether_arrow_takes_them_or_python() -> None:
    types: list[tuple[str, pa.DataType]] = [
        ("i", pa.int16()),
        ("b", pa.bool_()),
        ("t", pa.string()),
        ("d", pa.decimal128(4, 1)),
    ]
    kind = pa.struct(types)
    rows = RowDecoder(kind, ["int2", "bool", "text", "numeric"], [True, True, False, False])
    good = [f'{{"i":{number},"b":true,"t":"{number}","d":"{number % 9}.5"}}' for number in range(2500)]
    bad = ["{", '{"i":70000,"b":false,"t":"x","d":"1.0"}', '{"i":1,"b":true,"t":"x","d":"NaN"}', "[]", None]
    at_once = rows.decode(pa.array(good), pa.repeat(pa.scalar(value=True), len(good)))

    mixed = [*good[:1200], *bad, *good[1200:]]
    found = rows.decode(pa.array(mixed), pa.repeat(pa.scalar(value=True), len(mixed)))

    assert not any(at_once.wrong.to_pylist())
    assert found.rows.to_pylist()[:1200] == at_once.rows.to_pylist()[:1200]
    assert found.rows.to_pylist()[1205:] == at_once.rows.to_pylist()[1200:]
    assert found.rows.to_pylist()[1200:1205] == [
        None,
        {"i": None, "b": False, "t": "x", "d": Decimal("1.0")},
        {"i": 1, "b": True, "t": "x", "d": None},
        None,
        None,
    ]
    assert [place for place, wrong in enumerate(found.wrong.to_pylist()) if wrong] == [1200, 1201, 1202, 1203]


# ------------------------------------------------------------------------------------------ what cannot be decoded


@pytest.fixture
def broken(shop: Shop) -> None:
    """Have an event whose new row has a value that its column cannot hold, and one whose old row has."""
    shop.capture("shop.orders", "json", "backup")
    shop.run(
        "insert into shop.orders values (1, 'NaN', 'a')",
        "update shop.orders set total = 1",
        "update shop.orders set note = 'b'",
    )


@pytest.mark.usefixtures("broken")
def test_what_cannot_be_decoded_is_null_and_shown(changes: Callable[..., list[Row]]) -> None:
    one = {"id": 1, "total": Decimal("1.00"), "note": "a"}

    rows = changes()

    assert told(rows) == [
        ("insert", None, {**one, "total": None}),
        ("update", {**one, "total": None}, one),
        ("update", one, {**one, "note": "b"}),
    ]
    shown = '{"id":1,"total":"NaN","note":"a"}'
    assert [row["_corrupt_record"] for row in rows] == [shown, shown, None]
    assert [row["bad"] for row in changes(columnNameOfCorruptRecord="bad")] == [shown, shown, None]


@pytest.mark.usefixtures("broken")
def test_what_cannot_be_decoded_is_left_out_or_fails_if_asked(changes: Callable[..., list[Row]]) -> None:
    [row] = changes(mode="DROPMALFORMED")
    assert row["after"]["note"] == "b"
    assert "_corrupt_record" not in row
    with pytest.raises(MessageDeserializationError, match="the mode is FAILFAST"):
        changes(mode="FAILFAST")


def test_events_from_when_the_table_was_captured_as_sql_cannot_be_decoded(
    shop: Shop, changes: Callable[..., list[Row]]
) -> None:
    shop.capture("shop.orders", "sql")
    shop.run("insert into shop.orders values (1)")
    shop.capture("shop.orders", "json")

    [row] = changes()

    assert (row["op"], row["before"], row["after"]) == (None, None, None)
    assert "insert" not in row["_corrupt_record"]
    assert "values" in row["_corrupt_record"]


def test_a_stream_goes_on_with_its_columns_when_the_table_is_altered(shop: Shop, stream: Streams) -> None:
    query = Query(stream(changes="shop.orders"))
    list(query.batches())
    shop.run("insert into shop.orders values (1, 1.50)")
    shop.run(
        "alter table shop.orders add column extra int default 7",
        "insert into shop.orders values (2, 1.50, null, 8)",
        "alter table shop.orders drop column note",
        "insert into shop.orders values (3, 1.50)",
        "alter table shop.orders alter column total type text",
        "insert into shop.orders values (4, 'much'), (5, '1.50')",
    )

    rows = [row for found in query.batches() for row in found]

    assert [row["after"] for row in sorted(rows, key=lambda row: row["ev_id"])] == [
        ONE,
        {**ONE, "id": 2},
        {**ONE, "id": 3},
        {**ONE, "id": 4, "total": None},
        {**ONE, "id": 5},
    ]
    assert [row["_corrupt_record"] for row in rows if row["_corrupt_record"]] == [
        '{"id":4,"total":"much","extra":7}'
    ]


def test_a_frame_that_is_loaded_later_has_the_new_columns(
    shop: Shop, changes: Callable[..., list[Row]]
) -> None:
    shop.run("insert into shop.orders values (1)", "alter table shop.orders add column extra date")
    shop.run("insert into shop.orders values (2, null, null, '2026-11-24')")

    assert [row["after"]["extra"] for row in changes()] == [
        None,
        datetime(2026, 11, 24, tzinfo=UTC).date(),
    ]


def test_columns_that_the_trigger_ignores_are_not_there(
    shop: Shop, changes: Callable[..., list[Row]]
) -> None:
    shop.capture("shop.orders", "json", "ignore=note", "when=total > 1", "ev_extra3=note")
    shop.run("insert into shop.orders values (1, 0.5), (2, 1.5)")

    assert told(changes()) == [("insert", None, {"id": 2, "total": Decimal("1.50")})]


# ------------------------------------------------------------------------------------------------- roles and mistakes


def test_a_role_that_may_read_the_log_needs_no_right_on_the_table(
    shop: Shop, changes: Callable[..., list[Row]], reader_dsn: str
) -> None:
    shop.run("insert into shop.orders values (1, 1.50)")

    assert told(changes(dsn=reader_dsn)) == [("insert", None, ONE)]


def test_columns_of_another_table_are_refused(shop: Shop, options: Options) -> None:
    shop.run("create table items (id int primary key)")
    shop.capture("items")
    given = log_source.schema(options(changes="items"))

    assert change_layout(given, "public.items", "FAILFAST").types == ("int4",)
    with pytest.raises(ConfigurationError, match=r"takes the columns of shop\.orders from the catalogue"):
        log_source.batch_reader(options(changes="shop.orders"), given)


# ------------------------------------------------------------------------------------------------ rows, then changes


@pytest.mark.parametrize("form", ["json", "url"])
def test_a_row_of_the_beginning_is_never_newer_than_a_change_that_follows(
    shop: Shop, orders: Orders, stream: Streams, form: str
) -> None:
    """Whatever happens until it is read, and when it is read again: only rows that no change tells of are shown."""
    shop.run(
        "create table pairs (a text, b numeric, at timestamptz, note text, primary key (a, b, at))",
        "insert into pairs select 'k ' || n, n, '2026-11-29 07:00+01', 'old' from generate_series(1, 6) as n",
    )
    shop.capture("pairs", form)
    begun = orders.tick()
    reader = stream(changes="pairs", snapshot="initial", startingOffsets="latest")
    start = as_spark(reader.initialOffset())
    shop.run("set timezone to 'Asia/Tokyo'; update pairs set note = 'in the batch' where b = 1")
    end = as_spark(reader.latestOffset(start))
    attempts = list[list[Row]]()
    for change in (
        "update pairs set note = 'after' where b = 2",
        "delete from pairs where b = 3; insert into pairs values ('k 7', 7, now(), 'after')",
        "update pairs set a = 'k 40' where b = 4; insert into pairs values ('k 4', 4, '2026-11-29 06:00Z', 'again')",
    ):
        orders.connection.execute(change.encode())
        attempts.append(between(reader, start, end))
    for rows in attempts:
        notes = {(row["op"], row["after"]["note"], row["before"], row["ev_id"] is None) for row in rows}
        assert notes == {("r", "old", None, True), ("update", "in the batch", None, False)}
        assert {row["tick_id"] for row in rows if row["op"] == "r"} == {begun}
    assert sorted(row["after"]["a"] for row in attempts[-1]) == ["k 1", "k 5", "k 6"]

    orders.tick()
    held = dict[str, str]()
    for row in sorted(attempts[-1] + list(*Query(reader, end).batches()), key=lambda row: row["ev_id"] or 0):
        if row["op"] == "delete":
            held.pop(row["before"]["a"], None)
        else:
            held[row["after"]["a"]] = row["after"]["note"]
    assert held == dict(orders.connection.execute("select a, note from pairs").fetchall())


def test_a_table_without_a_key_has_no_rows_to_begin_with(shop: Shop, options: Options) -> None:
    shop.run("create table notes (a int)")
    shop.capture("notes")
    with pytest.raises(ConfigurationError, match="notes has none"):
        log_source.schema(options(changes="notes", snapshot="initial"))
