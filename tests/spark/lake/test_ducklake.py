"""A DuckLake's tables change at one instant, in one snapshot; and DuckDB reads each of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from rowbus.errors import ConfigurationError
from rowbus.spark.captured import reading_rows
from rowbus.spark.lake.tables import followed_table
from rowbus.spark.lake.tables.comparison import compare_tables
from rowbus.spark.lake.tables.followed_table import FollowedTable
from rowbus.spark.lake.tables.upkeep import vacuum_tables
from tests.fixtures.ducklake import attached
from tests.spark.lake.following import Following

pytestmark = [
    pytest.mark.one_version,
    pytest.mark.filterwarnings("ignore"),  # of the libraries, about themselves
]

BALANCES = """
    select s.snapshot_id,
        (select count(*) from lake.public.orders at (version => {0}))
        - (select count(*) from lake.public.payments at (version => {0}))
        - (select count(*) from lake.public.open at (version => {0}))
    from ducklake_snapshots('lake') as s where s.snapshot_id = {0}
"""


@pytest.fixture
def lake(log_database: str, pgq: psycopg.Connection, tmp_path: Path) -> Following:
    """Make orders, each of which is open or paid."""
    made = Following(log_database, pgq, tmp_path / "lake", "ducklake")
    for table in ("orders", "payments", "open"):
        made.make(table, "id int primary key")
    order(made, 1)
    return made


def order(lake: Following, number: int) -> None:
    """Have an order come, and the one before it be paid, in one transaction each."""
    lake.run(f"begin; insert into orders values ({number}); insert into open values ({number}); commit")
    lake.run(f"begin; insert into payments select {number} - 1 where {number} > 1; "
             f"delete from open where id = {number} - 1; commit")  # fmt: skip


def snapshots(lake: Following) -> list[tuple[Any, ...]]:
    """Give the snapshots that have the tables, each with orders less payments and open ones."""
    with attached(lake.dsn) as duck:
        numbers = [
            number for (number,) in duck.execute("select snapshot_id from lake.snapshots()").fetchall()
        ]
        return [duck.execute(BALANCES.format(number)).fetchone() for number in numbers if number]


def test_all_tables_are_copied_of_one_moment_and_change_in_one_snapshot_a_batch(
    lake: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = reading_rows
    numbers: Iterator[int] = iter(range(2, 9))

    def read(*given: Any) -> Any:  # noqa: ANN401 - those of the function
        order(lake, next(numbers))  # between the copies of two tables
        return reading(*given)

    monkeypatch.setattr(followed_table, "reading_rows", read)
    assert lake.copy() == {"public.open": 1, "public.orders": 1, "public.payments": 0}
    for number in numbers:
        order(lake, number)
        lake.apply()

    assert [balance for _, balance in snapshots(lake)] == [0] * 5
    assert all(table.equal for table in compare_tables(lake.folder.path, "changes", ("*",), lake.dsn, str))


def test_a_batch_is_in_all_tables_or_in_none(lake: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.copy()
    order(lake, 2)
    with monkeypatch.context() as patched:
        apply = FollowedTable.apply

        def die(table: FollowedTable, *given: Any) -> None:  # noqa: ANN401 - those of the method
            apply(table, *given)
            if table.path.endswith("orders"):
                raise KeyboardInterrupt

        patched.setattr(FollowedTable, "apply", die)
        with pytest.raises(KeyboardInterrupt):
            lake.commit(lake.stage(), 0)
    assert lake.rows("public.orders") == [(1,)]
    lake.commit(lake.stage(), 0)

    assert (lake.rows("public.orders"), lake.rows("public.open")) == ([(1,), (2,)], [(2,)])
    assert [balance for _, balance in snapshots(lake)] == [0, 0]


def test_a_table_that_is_rewritten_before_its_copy_is_copied_of_a_later_moment(
    lake: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are none to who sees the database as it was before."""
    reading, once = reading_rows, iter(["alter table orders alter id type bigint"])

    def read(*given: Any) -> Any:  # noqa: ANN401 - those of the function
        lake.run(*once)
        return reading(*given)

    monkeypatch.setattr(followed_table, "reading_rows", read)
    lake.copy()

    assert lake.rows("public.orders") == [(1,)]


def test_rows_are_found_by_the_bounds_of_files_and_by_values_of_new_columns(lake: Following) -> None:
    lake.run("insert into orders values (2)")
    lake.copy()
    lake.run("insert into orders select generate_series(3, 6)")
    lake.run(
        "alter table orders add column state text default 'new', add column n int default 7, add column tags int []"
    )
    lake.apply()
    assert all(table.equal for table in compare_tables(lake.folder.path, "changes", ("*",), lake.dsn, str))
    with attached(lake.dsn) as duck:
        for where, count in (("id = 2", 1), ("id = 6", 1), ("n = 7", 6), ("n > 7", 0), ("state = 'new'", 6)):
            query = f"select count(*) from lake.public.orders where {where}"
            assert duck.execute(query).fetchone() == (count,), where


@pytest.mark.parametrize(
    "change, said",
    [
        (
            "update ducklake.ducklake_metadata set value = '9.9' where key = 'version'",
            "DuckLake of version 9.9",
        ),
        ("update ducklake.ducklake_metadata set value = '/else/' where key = 'data_path'", "in /else/"),
        ("alter table ducklake.ducklake_snapshot owner to stranger", "ducklake_snapshot belongs to stranger"),
        ("grant create on schema ducklake to stranger", "right to create objects in schema ducklake"),
        ("drop schema ducklake cascade", "has no DuckLake in schema ducklake"),
    ],
)
def test_a_catalogue_of_others_is_left_alone(lake: Following, change: str, said: str) -> None:
    lake.copy()
    lake.run("do $$ begin create role stranger; exception when duplicate_object then end $$", change)
    order(lake, 2)
    before = sorted(Path(lake.folder.path).rglob("*.parquet"))

    with pytest.raises(ConfigurationError, match=said):
        vacuum_tables(lake.folder.path, older_than=timedelta(), dry_run=False, tell=str, dsn=lake.dsn)
    if "drop" not in change:
        with pytest.raises(ConfigurationError, match=said):
            lake.folder.stored("public.orders").newest("any")
    assert sorted(Path(lake.folder.path).rglob("*.parquet")) == before


def test_a_catalogue_is_a_schema_by_its_name_that_the_jobs_role_may_own(
    lake: Following, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match="give its name, no URL"):
        lake.folder.settle("ducklake", "postgresql://elsewhere")
    name, role = 'my "lake"; drop', "keeper_of_a_lake"
    lake.run(f"drop role if exists {role}", f"create role {role} in role pgq_reader")
    try:
        lake.run(f"grant select on all tables in schema public to {role}")
        lake.run(f"""create schema "my ""lake""; drop" authorization {role}""")
        dsn = make_conninfo(lake.dsn, options=f"-c role={role}")
        odd = Following(dsn, lake.connection, tmp_path / "odd", "ducklake", catalog=name)
        odd.copy()
        with attached(lake.dsn, name) as duck:
            assert duck.execute("from lake.public.orders").fetchall() == [(1,)]
    finally:
        lake.run(f"drop owned by {role} cascade", f"drop role {role}")


def test_batches_go_on_after_duckdb_has_merged_files_and_forgotten_snapshots(lake: Following) -> None:
    lake.copy()
    for number in range(2, 6):
        order(lake, number)
        lake.apply()
    with attached(lake.dsn, read_only=False) as duck:
        for work in ("merge_adjacent_files('lake')", "rewrite_data_files('lake', delete_threshold => 0)"):
            duck.execute(f"call ducklake_{work}")
        duck.execute("call ducklake_expire_snapshots('lake', older_than => now())")
    order(lake, 6)
    lake.apply()

    assert (lake.rows("public.orders"), lake.rows("public.open")) == ([(n,) for n in range(1, 7)], [(6,)])
    assert all(table.equal for table in compare_tables(lake.folder.path, "changes", ("*",), lake.dsn, str))


def test_snapshots_that_are_young_stay(lake: Following) -> None:
    lake.copy()
    first = lake.version("public.orders")
    order(lake, 2)
    lake.apply()
    for hours, kept in ((1, [first, first + 1]), (0, [first + 1])):
        age = timedelta(hours=hours)
        vacuum_tables(lake.folder.path, older_than=age, dry_run=False, tell=str, dsn=lake.dsn)
        assert [number for number, _ in snapshots(lake)] == kept
