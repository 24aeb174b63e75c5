"""Files that no version of a lake's tables needs are deleted when they are old, and nothing else."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from rowbus.spark.lake import iceberg_files
from rowbus.spark.lake.tables.upkeep import vacuum_tables
from tests.spark.lake.following import Following

pytestmark = [
    pytest.mark.one_version,
    pytest.mark.filterwarnings("ignore"),  # of the libraries, about themselves
]


@pytest.fixture(params=["delta", "iceberg"])
def lake(
    request: pytest.FixtureRequest,
    log_database: str,
    pgq: psycopg.Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Following:
    """Make a lake with a table that six batches changed."""
    monkeypatch.setattr(iceberg_files, "SNAPSHOTS", 2)
    made = Following(log_database, pgq, tmp_path / "lake", request.param)
    made.make("orders", "id int primary key, customer text")
    made.run("insert into orders values (1, 'a'), (2, 'b')")
    made.copy()
    for number in range(6):
        made.run(f"update orders set customer = '{number}' where id = 1")
        made.apply()
    return made


def vacuumed(lake: Following, hours: int, *, dry_run: bool = False) -> list[str]:
    (found,) = vacuum_tables(
        str(lake.folder.path),
        older_than=timedelta(hours=hours),
        dry_run=dry_run,
        tell=lambda _line: None,
        dsn=lake.dsn,
    )
    assert found.name == "public.orders"
    return found.files


def files(lake: Following) -> set[str]:
    root = Path(lake.folder.table("public.orders"))
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.suffix in {".parquet", ".avro"}}


@pytest.mark.parametrize("lake", ["delta", "iceberg", "ducklake"], indirect=True)
def test_what_no_version_needs_is_deleted(lake: Following) -> None:
    before, unneeded = files(lake), vacuumed(lake, 0, dry_run=True)
    assert unneeded
    assert files(lake) == before
    assert vacuumed(lake, 0) == unneeded
    assert files(lake) == before - set(unneeded)

    assert lake.rows("public.orders") == [(1, "5"), (2, "b")]
    noted = lake.folder.versions()["public.orders"]
    assert lake.rows("public.orders", version=noted) == [(1, "5"), (2, "b")]
    lake.run("update orders set customer = 'new'")
    lake.apply()
    assert lake.rows("public.orders") == [(1, "new"), (2, "new")]


def test_what_is_young_stays(lake: Following) -> None:
    assert vacuumed(lake, 1) == []


def test_files_of_attempts_that_failed_are_deleted_when_they_are_old(lake: Following) -> None:
    sample = next(path for path in files(lake) if path.endswith(".parquet"))
    root = Path(lake.folder.table("public.orders"))
    for name in ("young", "old"):
        (root / sample).with_name(f"{name}.parquet").write_bytes(b"")
    os.utime((root / sample).with_name("old.parquet"), (0, 0))

    found = [Path(name).name for name in vacuumed(lake, 1)]
    assert "old.parquet" in found
    assert "young.parquet" not in found


@pytest.mark.parametrize("lake", ["delta", "iceberg", "ducklake"], indirect=True)
def test_the_version_of_the_last_tick_stays(lake: Following) -> None:
    """Also when another program has changed the table since."""
    noted = lake.folder.versions()["public.orders"]
    lake.lose("public.orders", "id = 2")
    vacuumed(lake, 0)

    assert lake.rows("public.orders", version=noted) == [(1, "5"), (2, "b")]
    assert lake.rows("public.orders") == [(1, "5")]
