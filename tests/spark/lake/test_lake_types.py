"""Every type of the database is in the lake without loss, from the first copy as from changes."""

from __future__ import annotations

import math
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from rowbus.spark.lake.table import plain_type
from tests.fixtures.log import FOREIGN_SETTINGS
from tests.spark.lake.following import Following
from tests.spark.lake.values import CASES, TYPES

pytestmark = [
    pytest.mark.one_version,
    pytest.mark.filterwarnings("ignore"),  # of the libraries, about themselves
]

FITTED: dict[pa.DataType, pa.DataType] = {pa.int16(): pa.int32(), pa.list_(pa.int16()): pa.list_(pa.int32())}
"""Types that Iceberg has instead."""


@pytest.fixture(params=["delta", "iceberg"])
def lake(
    request: pytest.FixtureRequest, log_database: str, pgq: psycopg.Connection, tmp_path: Path
) -> Following:
    pgq.execute(TYPES)
    pgq.execute(FOREIGN_SETTINGS)
    return Following(log_database, pgq, tmp_path / "lake", request.param)


@pytest.mark.parametrize("lake", ["delta", "iceberg", "ducklake"], indirect=True)
def test_a_value_of_every_type_comes_by_the_copy_and_by_changes_alike(lake: Following) -> None:
    """A column for each case: its value and NULL before the copy, and its value again as a change."""
    columns = [f"v{number}" for number in range(len(CASES))]
    values = ", ".join(value for _type, value, _kind, _found in CASES)
    definitions = (f"{name} {type_}" for name, (type_, *_) in zip(columns, CASES, strict=True))
    lake.make("every_type", f"id int primary key, {', '.join(definitions)}")
    lake.run(f"insert into every_type values (1, {values})", "insert into every_type values (2)")
    lake.copy()
    lake.run(f"set timezone = 'Asia/Tokyo'; insert into every_type values (3, {values})")
    lake.apply()

    table = lake.read("public.every_type").sort_by("id")
    iceberg, wrong = lake.settings.format == "iceberg", list[object]()
    for name, (type_, value, kind, expected) in zip(columns, CASES, strict=True):
        copied, null, changed = table.column(name).to_pylist()
        told = expected if expected is not None else copied
        found = table.schema.field(name).type
        same = plain_type(found) == plain_type(FITTED.get(kind, kind) if iceberg else kind)
        if not (same and null is None and copied == told and changed == told):
            wrong.append((type_, value, str(found), copied, changed))
    assert not wrong, wrong


@pytest.mark.parametrize("lake", ["delta", "iceberg", "ducklake"], indirect=True)
def test_a_value_that_its_type_cannot_hold_makes_the_column_text_when_it_comes(lake: Following) -> None:
    lake.make("prices", "id int primary key, v numeric(6, 2)")
    lake.run("insert into prices values (1, 1.50)")
    lake.copy()
    lake.run("insert into prices values (2, 'NaN')")
    lake.apply()
    assert lake.rows("public.prices") == [(1, "1.50"), (2, "NaN")]
    lake.run("insert into prices values (3, 2.5)")
    lake.apply()
    assert lake.rows("public.prices") == [(1, "1.50"), (2, "NaN"), (3, "2.50")]


def test_not_a_number_is_a_value_of_floats(lake: Following) -> None:
    lake.make("floats", "id int primary key, v float8")
    lake.run("insert into floats values (1, 'NaN')")
    lake.copy()
    lake.run("insert into floats values (2, 'NaN')")
    lake.apply()

    assert all(math.isnan(value) for _id, value in lake.rows("public.floats"))
