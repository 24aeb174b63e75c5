"""Columns as text: what SQL writes is read, and what is wrong is named."""

from __future__ import annotations

import pytest

from rowbus.errors import ConfigurationError
from rowbus.spark.column_list import parse_columns
from tests.fixtures.every import every


@every(
    "text, read",
    [
        ("order_id string, total decimal(10,2)", "order_id:string,total:decimal(10,2)"),
        ("`a, b` INT,\n c array<struct<d: date, e: map<string, bigint>>>", None),
        ("a decimal, b numeric(5), c timestamp_ntz", "a:decimal(10,0),b:decimal(5,0),c:timestamp_ntz"),
    ],
)
def test_columns_are_read_as_spark_reads_them(text: str, read: str | None) -> None:
    found = parse_columns(text).simpleString()

    assert found == f"struct<{read or 'a, b:int,c:array<struct<d:date,e:map<string,bigint>>>'}>"


@every(
    "wrong",
    [
        "",
        "a",
        "a text",
        "a int,",
        "a decimal(50,2)",
        "a decimal(5,6)",
        "a array<int",
        "a map<string>",
        "a.b int",
    ],
)
def test_what_is_no_column_is_named(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read as columns") as refused:
        parse_columns(wrong)

    assert "\n" not in str(refused.value)
