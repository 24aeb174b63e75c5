"""A value of every type of the database, and what it is in Arrow."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

UTC_US = pa.timestamp("us", "UTC")
TYPES = """
create type mood as enum ('good', 'so so');
create type visit as (at timestamptz, price money);
create domain price as numeric(10, 2);
create domain short_text as varchar(10);
create type pair as (a int, b text);
create schema own;
create type own.bool as enum ('t', 'maybe');
create type own.bytea as (a int, b int);
create type own._int4 as enum ('{1,2}', 'a');
"""
CASES: list[tuple[str, str, pa.DataType, object]] = [
    ("boolean", "'t'", pa.bool_(), True),
    ("smallint", "-32768", pa.int16(), -32768),
    ("int", "2147483647", pa.int32(), 2147483647),
    ("bigint", "9223372036854775807", pa.int64(), 9223372036854775807),
    ("real", "0.1", pa.float32(), 0.10000000149011612),
    ("double precision", "1e-320", pa.float64(), 1e-320),
    ("double precision", "'-infinity'", pa.float64(), -math.inf),
    ("numeric(12, 2)", "1234567890.10", pa.decimal128(12, 2), Decimal("1234567890.10")),
    ("numeric(38, 10)", "0.0000000001", pa.decimal128(38, 10), Decimal("0.0000000001")),
    ("numeric", "1.5000000000000000000000000000000000000000000001", pa.string(), None),
    ("numeric", "'NaN'", pa.string(), "NaN"),
    ("numeric(12, 2)", "'NaN'", pa.string(), "NaN"),
    ("numeric", "'infinity'", pa.string(), "Infinity"),
    ("date", "'2026-11-23'", pa.date32(), date(2026, 11, 23)),
    ("date", "'infinity'", pa.string(), "infinity"),
    ("timestamp", "'2026-11-23 07:00:00.000001'", pa.timestamp("us"), datetime(2026, 11, 23, 7, 0, 0, 1)),  # noqa: DTZ001
    (
        "timestamptz",
        "'2026-11-23 07:00:00.000001+02'",
        UTC_US,
        datetime(2026, 11, 23, 5, 0, 0, 1, UTC),
    ),
    ("timestamptz", "'infinity'", pa.string(), "infinity"),
    ("timestamptz", "'0044-03-15 12:00:00.5+02 BC'", pa.string(), "0044-03-15 10:00:00.5+00 BC"),
    ("timestamptz", "'12026-03-15 12:00+02'", pa.string(), "12026-03-15 10:00:00+00"),
    ("timestamp", "'0044-03-15 12:00 BC'", pa.string(), "0044-03-15 12:00:00 BC"),
    ("visit", "('2026-11-23 07:00+02', 12)", pa.string(), '("2026-11-23 05:00:00+00",$12.00)'),
    ("interval", "'1 day 02:03:04'", pa.string(), "1 day 02:03:04"),
    ("time", "'07:00:00.5'", pa.string(), "07:00:00.5"),
    ("text", "E'a\\tł\"{}, \\\\'", pa.string(), 'a\tł"{}, \\'),
    ("char(4)", "'ab'", pa.string(), "ab  "),
    ("short_text", "'abc'", pa.string(), "abc"),
    ("price", "1.50", pa.decimal128(10, 2), Decimal("1.50")),
    ("mood", "'so so'", pa.string(), "so so"),
    ("uuid", "'00000000-0000-0000-0000-00000000000a'", pa.string(), "00000000-0000-0000-0000-00000000000a"),
    ("bytea", "'\\x00ff'", pa.binary(), b"\x00\xff"),
    ("bytea[]", "array['\\x00ff'::bytea]", pa.list_(pa.string()), ["\\x00ff"]),
    ("regclass", "'pg_class'", pa.string(), "pg_class"),
    ("regclass", "'pair'", pa.string(), "public.pair"),
    ("jsonb", "'{\"a\": [1.50, null]}'", pa.string(), '{"a": [1.50, null]}'),
    ("json", "'{\"b\" : 1}'", pa.string(), '{"b" : 1}'),
    ("int4range", "'[1,5)'", pa.string(), "[1,5)"),
    ("tstzrange", "'[2026-11-23 00:00+00,)'", pa.string(), '["2026-11-23 00:00:00+00",)'),
    ("tstzrange", "'[2026-11-23 00:00:00.5+00,)'", pa.string(), '["2026-11-23 00:00:00.5+00",)'),
    ("inet", "'10.0.0.1/8'", pa.string(), "10.0.0.1/8"),
    ("pair", "row(1, 'x')", pa.string(), "(1,x)"),
    ("own.bool", "'t'", pa.string(), "t"),
    ("own.bytea", "row(1, 2)", pa.string(), "(1,2)"),
    ("own._int4", "'{1,2}'", pa.string(), "{1,2}"),
    ("own.bool[]", "'{maybe}'", pa.list_(pa.string()), ["maybe"]),
    ("box[]", "'{(2,2),(1,1);(1,1),(0,0)}'", pa.string(), "{(2,2),(1,1);(1,1),(0,0)}"),
    ("int[]", "'{1,NULL,3}'", pa.list_(pa.int32()), [1, None, 3]),
    (
        "text[]",
        "array['a,b', null, 'NULL', '', 'q\"\\']",
        pa.list_(pa.string()),
        ["a,b", None, "NULL", "", 'q"\\'],
    ),
    ("text[]", "array[E'\\u2028a', E'\\u00a0', ' b']", pa.list_(pa.string()), ["\u2028a", "\xa0", " b"]),
    (
        "timestamptz[]",
        "'{2026-11-23 07:00:00.5+02,infinity}'",
        pa.list_(pa.string()),
        ["2026-11-23 05:00:00.5+00", "infinity"],
    ),
    (
        "tstzrange[]",
        "array['[2026-11-23 00:00+00,)'::tstzrange]",
        pa.list_(pa.string()),
        ['["2026-11-23 00:00:00+00",)'],
    ),
    ("smallint[]", "'{-32768,NULL}'", pa.list_(pa.int16()), [-32768, None]),
    ("numeric(5, 1)[]", "'{1.5}'", pa.list_(pa.decimal128(5, 1)), [Decimal("1.5")]),
    ("double precision[]", "'{1.5,Infinity}'", pa.list_(pa.float64()), [1.5, math.inf]),
    ("boolean[]", "'{t,f}'", pa.list_(pa.bool_()), [True, False]),
    ("mood[]", "'{good,\"so so\"}'", pa.list_(pa.string()), ["good", "so so"]),
    ("int[]", "'{{1,2},{3,4}}'", pa.string(), "{{1,2},{3,4}}"),
]
