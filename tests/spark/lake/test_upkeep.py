"""Small files of a lake's tables are merged by the way, and old ones deleted; the rows stay the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from rowbus.spark.lake import delta, iceberg_files, policy
from rowbus.spark.lake.policy import MANY
from rowbus.spark.lake.tables import upkeep
from rowbus.spark.lake.tables.comparison import compare_tables
from rowbus.spark.lake.tables.upkeep import compact_tables, vacuum_tables
from tests.spark.lake.following import Following

pytestmark = [
    pytest.mark.one_version,
    pytest.mark.filterwarnings("ignore"),  # of the libraries, about themselves
]

ORDERS = "public.orders"


@pytest.fixture(params=["delta", "iceberg"])
def lake(
    request: pytest.FixtureRequest, log_database: str, pgq: psycopg.Connection, tmp_path: Path
) -> Following:
    """Make a lake with a table that as many batches as files are many have added rows to."""
    made = Following(log_database, pgq, tmp_path / "lake", request.param)
    made.make("orders", "id int primary key, customer text")
    made.run("insert into orders values (0, 'copied')")
    made.copy()
    for number in range(MANY):
        add(made, number + 1)
    return made


def add(lake: Following, number: int) -> None:
    lake.run(f"insert into orders values ({number}, 'batch {number}')")
    lake.apply()


def rows(count: int) -> list[tuple[int, str]]:
    return [(0, "copied"), *((number, f"batch {number}") for number in range(1, count))]


def named(lake: Following) -> list[str]:
    """Give the files of the table's newest version."""
    if lake.settings.format == "delta":
        return lake.delta(ORDERS).file_uris()
    if lake.settings.format == "ducklake":
        named = "select path from ducklake.ducklake_data_file where end_snapshot is null"
        return [path for (path,) in lake.connection.execute(named)]
    with lake.iceberg(ORDERS) as table:
        return [task.file.file_path for task in table.scan().plan_files()]


def written(lake: Following) -> set[Path]:
    return set(Path(lake.folder.table(ORDERS)).rglob("*.parquet"))


def is_equal(lake: Following) -> bool:
    (found,) = compare_tables(str(lake.folder.path), "changes", ("*",), lake.dsn, lambda _line: None)
    return found.equal


@pytest.mark.parametrize("lake", ["delta", "iceberg", "ducklake"], indirect=True)
def test_after_so_many_batches_small_files_become_fewer(lake: Following) -> None:
    assert len(named(lake)) == MANY + 1
    lake.settings = replace(lake.settings, compact_every=MANY + 1)
    add(lake, MANY + 1)

    assert len(named(lake)) == 1
    assert lake.rows(ORDERS) == rows(MANY + 2)
    assert is_equal(lake)


def test_without_it_files_are_left_alone(lake: Following) -> None:
    add(lake, MANY + 1)

    assert len(named(lake)) == MANY + 2


def test_batches_go_on_after_a_compaction_each_once(lake: Following) -> None:
    assert compact_tables(lake.folder) == {ORDERS: MANY + 1}
    assert compact_tables(lake.folder) == {ORDERS: 0}

    lake.commit(lake.stage(), lake.batches - 1)  # Spark repeats the last batch: the table has it
    lake.run("update orders set customer = 'new' where id = 1", "delete from orders where id = 2")
    staged = lake.stage()
    lake.commit(staged, lake.batches)
    assert lake.rows(ORDERS) == [(0, "copied"), (1, "new"), *rows(MANY + 1)[3:]]
    assert is_equal(lake)


def test_a_compaction_that_another_commit_overtakes_changes_nothing(
    lake: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is broken off: its files are there, and no version names them."""

    def overtaken(sizes: Sequence[int]) -> list[int]:
        lake.lose(ORDERS, "id = 2")
        return policy.to_merge(sizes)

    before = written(lake)
    for module in (delta, iceberg_files):
        monkeypatch.setattr(module, "to_merge", overtaken)
    assert compact_tables(lake.folder) == {ORDERS: 0}
    monkeypatch.undo()

    kept = [row for row in rows(MANY + 1) if row[0] != 2]
    assert lake.rows(ORDERS) == kept
    left = written(lake) - before - {Path(name) for name in named(lake)}
    assert left
    vacuum_tables(str(lake.folder.path), older_than=timedelta(), dry_run=False, tell=lambda _line: None)
    assert not left & written(lake)
    assert compact_tables(lake.folder)[ORDERS] >= MANY
    assert lake.rows(ORDERS) == kept


def test_files_that_no_version_needs_are_deleted_by_the_way(
    lake: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "DELETIONS", 1)
    monkeypatch.setattr(iceberg_files, "SNAPSHOTS", 1)
    lake.settings = replace(lake.settings, compact_every=1, keep_hours=1)
    lake.run("update orders set customer = 'new'")
    lake.apply()
    young = written(lake)
    assert len(young) > len(named(lake))

    lake.settings = replace(lake.settings, keep_hours=0)
    lake.run("update orders set customer = 'newer'")
    lake.apply()
    assert len(young & written(lake)) <= 2  # Iceberg keeps the snapshot before
    assert lake.rows(ORDERS) == [(number, "newer") for number in range(MANY + 1)]


def test_tables_of_versions_are_compacted_as_well(
    log_database: str, pgq: psycopg.Connection, tmp_path: Path
) -> None:
    lake = Following(log_database, pgq, tmp_path / "lake", history=True)
    lake.make("orders", "id int primary key, customer text")
    lake.copy()
    for number in range(MANY):
        add(lake, number)
    before = lake.rows(f"{ORDERS}_history")

    assert compact_tables(lake.folder)[f"{ORDERS}_history"] >= MANY
    assert len(lake.delta(f"{ORDERS}_history").file_uris()) == 1
    assert lake.rows(f"{ORDERS}_history") == before
