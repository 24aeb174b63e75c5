"""A lake is compared with its database: equal tables are equal, and each kind of difference is found."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from rowbus.spark.lake.tables.comparison import ComparedTable, compare_tables
from tests.spark.lake.following import Following

pytestmark = [
    pytest.mark.one_version,
    pytest.mark.filterwarnings("ignore"),  # of the libraries, about themselves
]


@pytest.fixture(params=["delta", "iceberg"])
def lake(
    request: pytest.FixtureRequest, log_database: str, pgq: psycopg.Connection, tmp_path: Path
) -> Following:
    made = Following(log_database, pgq, tmp_path / "lake", request.param)
    made.make("orders", "id int primary key, total numeric(12, 2), tags text[], at timestamptz, weight real")
    made.run(
        "insert into orders select i, i * 1.1, array[i::text, null], now() - i * '1 s'::interval, i * 0.1 "
        "from generate_series(1, 100) i"
    )
    made.copy()
    return made


def compared(lake: Following) -> ComparedTable:
    (found,) = compare_tables(str(lake.folder.path), "changes", ("orders",), lake.dsn, lambda _line: None)
    return found


def test_a_lake_that_follows_is_equal(lake: Following) -> None:
    assert compared(lake).says == "equal, 100 rows"
    lake.run(
        "delete from orders where id % 3 = 0", "update orders set total = 0, weight = 'NaN' where id % 5 = 0"
    )
    lake.apply()

    assert compared(lake).says == "equal, 67 rows"


@pytest.mark.parametrize(
    "changing, said",
    [
        ("delete from orders where id = 1", "99 rows in the database, 100 in the lake"),
        ("update orders set total = total + 0.01 where id = 1", "100 rows in both, with other values"),
        ("update orders set total = 'NaN' where id = 1", "100 rows, and no such table in the lake"),
        ("alter table orders drop column total", "100 rows, and no such table in the lake"),
    ],
)
def test_what_is_not_in_the_lake_yet_is_a_difference(lake: Following, changing: str, said: str) -> None:
    lake.run(changing)

    assert compared(lake).says == said
    assert not compared(lake).equal


def test_a_row_that_is_lost_in_the_lake_is_found(lake: Following) -> None:
    lake.lose("public.orders", "id = 7")

    assert compared(lake).says == "100 rows in the database, 99 in the lake"
