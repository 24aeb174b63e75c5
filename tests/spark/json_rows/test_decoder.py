"""Typed rows without Spark: what the columns of a schema are for each body, at once or one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

import rowbus
from rowbus.errors import ConfigurationError, MessageDeserializationError
from rowbus.spark import schema_of
from rowbus.spark.json_rows.decoder import decoded, read_row
from rowbus.spark.json_rows.layout import Layout, lay_out
from tests.fixtures.every import every

COLUMNS = {"ev_id": "bigint", "ev_data": "string"}
DECIMAL = spark.DecimalType(10, 2)
CORRUPT = "_corrupt_record"


def layout(
    mode: str = "PERMISSIVE",
    *,
    from_body: tuple[str, ...] = (),
    asked: tuple[str, ...] = tuple(COLUMNS),
    **columns: spark.DataType,
) -> Layout:
    struct = spark.StructType([spark.StructField(name, kind) for name, kind in columns.items()])
    given = {"fromBody": from_body, "columnNameOfCorruptRecord": CORRUPT, "columns": asked}
    return lay_out(struct, COLUMNS, given, of="the log source", body="ev_data", mode=mode)


def rows(how: Layout, bodies: Sequence[str | None]) -> list[dict[str, Any]]:
    batch = pa.record_batch(
        {"ev_id": pa.array(range(len(bodies)), pa.int64()), "ev_data": pa.array(bodies, pa.string())}
    )
    return [row for found in decoded(iter([batch]), how) for row in found.to_pylist()]


@every(
    "kind, text, value",
    [
        (spark.StringType(), '"é"', "é"),
        (spark.StringType(), "5", "5"),
        (spark.StringType(), '{"b": [1, true]}', '{"b": [1, true]}'),
        (spark.LongType(), "5", 5),
        (spark.IntegerType(), "null", None),
        (spark.DoubleType(), "5", 5.0),
        (spark.DoubleType(), '"Infinity"', float("inf")),
        (spark.BooleanType(), "true", True),
        (DECIMAL, "12.3", Decimal("12.30")),
        (DECIMAL, '"12.30"', Decimal("12.30")),
        (DECIMAL, "1.005", Decimal("1.01")),
        (spark.DateType(), '"2026-11-20"', date(2026, 11, 20)),
        (spark.TimestampType(), '"2026-11-20T12:00:00+02:00"', datetime(2026, 11, 20, 10, tzinfo=UTC)),
        (
            spark.TimestampType(),
            '"2026-11-20T12:00:00.1234567Z"',
            datetime(2026, 11, 20, 12, 0, 0, 123456, UTC),
        ),
        (spark.TimestampType(), "0", datetime(1970, 1, 1, tzinfo=UTC)),
        (spark.BinaryType(), '"AQI="', b"\1\2"),
        (spark.ArrayType(spark.DateType()), '["2026-11-20", null]', [date(2026, 11, 20), None]),
        (spark.MapType(spark.StringType(), spark.LongType()), '{"a": 1}', [("a", 1)]),
        (spark.StructType([spark.StructField("b", spark.LongType())]), '{"b": 1, "c": 2}', {"b": 1}),
    ],
)
def test_a_member_of_the_body_is_a_column_of_its_type(kind: spark.DataType, text: str, value: object) -> None:
    found = rows(layout(a=kind, _corrupt_record=spark.StringType()), [f'{{"other": 1, "a": {text}}}'])

    assert found == [{"a": value, CORRUPT: None}]
    assert read_row(f'{{"a": {text}}}', [spark.StructField("a", kind)]) == ({"a": value}, True)


@every(
    "body",
    [
        "",
        "{",
        "[]",
        "5",
        '{"a": 1}} {"v": {"a": 2}',
        '{"a": 1',
        ',"a": 2}',
        '{"a": "x"}',
        '{"a": 1.5}',
        '{"a": 99999999999999999999}',
        '{"a": true}',
        "[" * 100_000,
    ],
)
def test_a_body_that_does_not_fit_is_shown_and_its_neighbours_keep_their_rows(body: str) -> None:
    good = [f'{{"a": {number}}}' for number in range(3000)]
    how = layout(ev_id=spark.LongType(), a=spark.LongType(), _corrupt_record=spark.StringType())

    found = rows(how, [*good, body, *good])

    assert [row["a"] for row in found] == [*range(3000), None, *range(3000)]
    assert [row["ev_id"] for row in found] == list(range(6001))
    assert [row[CORRUPT] for row in found if row[CORRUPT] is not None] == [body]


def test_bodies_that_are_one_value_only_together_are_not_taken_for_each_others() -> None:
    bodies = ['{"a": 1', ', "a": 2}', '{"a": 3}', '{}} {"v": {}']

    assert [row["a"] for row in rows(layout(a=spark.LongType()), bodies)] == [None, None, 3, None]


def test_no_body_a_byte_order_mark_and_lines_are_no_mistakes() -> None:
    bodies = [None, "null", '\ufeff{"a": 1}', '{\n  "a":\r\n 2\n}', "{}"]
    found = rows(layout(a=spark.LongType(), _corrupt_record=spark.StringType()), bodies)

    assert [(row["a"], row[CORRUPT]) for row in found] == [
        (None, None),
        (None, None),
        (1, None),
        (2, None),
        (None, None),
    ]


def test_a_row_of_which_one_column_fits_keeps_it() -> None:
    how = layout(a=spark.LongType(), b=spark.StringType())

    assert rows(how, ['{"a": "no number", "b": "kept"}']) == [{"a": None, "b": "kept"}]


def test_rows_that_do_not_fit_are_dropped_or_fail_as_the_mode_says() -> None:
    bodies = ['{"a": 1}', "{", '{"a": 2}']

    assert [row["a"] for row in rows(layout("DROPMALFORMED", a=spark.LongType()), bodies)] == [1, 2]
    with pytest.raises(MessageDeserializationError, match="the mode is FAILFAST"):
        rows(layout("FAILFAST", a=spark.LongType()), bodies)
    assert len(rows(layout("FAILFAST", a=spark.LongType()), ['{"a": 1}'])) == 1


def test_only_columns_that_are_asked_for_are_read_and_the_body_may_take_a_name() -> None:
    how = layout(ev_id=spark.StringType(), from_body=("ev_id",))

    assert how.needed == ("ev_data",)
    assert rows(how, ['{"ev_id": "from the body"}']) == [{"ev_id": "from the body"}]
    assert layout(ev_id=spark.LongType()).needed == ("ev_id",)


@every(
    "columns, text",
    [
        ({"ev_id": spark.StringType()}, "'ev_id' of the log source is of type bigint, not string"),
        ({CORRUPT: spark.LongType()}, "'_corrupt_record' of the log source is of type string, not bigint"),
        (
            {"a": spark.MapType(spark.LongType(), spark.LongType())},
            "'a' of type map<bigint,bigint> cannot come",
        ),
        (
            {"a": spark.ArrayType(spark.DayTimeIntervalType())},
            "'a' of type interval day to second cannot come",
        ),
    ],
)
def test_a_schema_that_the_source_cannot_give_is_refused(
    columns: dict[str, spark.DataType], text: str
) -> None:
    with pytest.raises(ConfigurationError, match=text):
        layout(**cast("Any", columns))


def test_a_name_for_the_body_that_the_schema_lacks_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'fromBody' names 'b'"):
        layout(from_body=("b",), a=spark.LongType())


def test_columns_beside_a_schema_are_refused_unless_they_are_the_same() -> None:
    with pytest.raises(ConfigurationError, match="Leave 'columns' out"):
        layout(asked=("ev_id",), order_id=spark.StringType())
    assert layout(asked=("ev_id",), ev_id=spark.LongType()).from_source == ("ev_id",)


@dataclass
class Line:
    """A line of an order."""

    sku: str
    number_of: int


@rowbus.event("Shop.OrderPlaced", rename="pascal")
@dataclass
class OrderPlaced:
    """An order, as .NET writes it."""

    order_id: str
    total: Decimal | None
    placed: datetime
    lines: list[Line]
    notes: dict[str, str]


def test_a_message_class_is_a_schema_with_the_names_of_its_bodies() -> None:
    assert schema_of(OrderPlaced).simpleString() == (
        "struct<OrderId:string,Total:decimal(38,18),Placed:timestamp,"
        "Lines:array<struct<Sku:string,NumberOf:bigint>>,Notes:map<string,string>>"
    )


@every("wrong, text", [(int, "is no class whose fields"), (dict, "is no class whose fields")])
def test_what_is_no_message_class_is_refused(wrong: type, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        schema_of(wrong)
