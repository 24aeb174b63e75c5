"""Every type of the database is in the lake without loss, from the first copy as from changes."""

from __future__ import annotations

import math
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from rowbus.spark.lake.table import plain_type
from tests.spark.lake.following import Following
from tests.spark.lake.values import CASES, TYPES

pytestmark = [
    pytest.mark.one_version,
    pytest.mark.filterwarnings("ignore"),  # of the libraries, about themselves
]

FITTED: dict[pa.DataType, pa.DataType] = {pa.int16(): pa.int32(), pa.list_(pa.int16()): pa.list_(pa.int32())}
"""What Iceberg has instead."""


@pytest.fixture(params=["delta", "iceberg"])
def lake(
    request: pytest.FixtureRequest, log_database: str, pgq: psycopg.Connection, tmp_path: Path
) -> Following:
    pgq.execute(TYPES)
    return Following(log_database, pgq, tmp_path / "lake", request.param)


def test_a_value_of_every_type_comes_by_the_copy_and_by_changes_alike(lake: Following) -> None:
    """One table for each case: with NULL and the value before the copy, and the value again as a change."""
    for number, (type_, value, _kind, _found) in enumerate(CASES):
        lake.make(f"t{number}", f"id int primary key, v {type_}")
        lake.run(f"insert into t{number} values (1, {value}), (2, null)")
    lake.copy()
    for number, (_type, value, _kind, _found) in enumerate(CASES):
        lake.run(f"set timezone = 'Asia/Tokyo'; insert into t{number} values (3, {value})")
    lake.apply()

    iceberg, wrong = lake.settings.format == "iceberg", list[object]()
    for number, (type_, value, kind, expected) in enumerate(CASES):
        table = lake.read(f"public.t{number}").sort_by("id")
        copied, null, changed = table.column("v").to_pylist()
        told = expected if expected is not None else copied
        same = plain_type(table.schema.types[1]) == plain_type(FITTED.get(kind, kind) if iceberg else kind)
        if not (same and null is None and copied == told and changed == told):
            wrong.append((type_, value, str(table.schema.types[1]), copied, changed))
    assert not wrong, wrong


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
