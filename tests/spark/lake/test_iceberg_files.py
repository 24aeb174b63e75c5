"""Files of an Iceberg table after a merge: one snapshot, few files touched, small metadata."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rowbus.spark.lake import files, iceberg_files
from rowbus.spark.lake.files import Layout
from rowbus.spark.lake.iceberg import IcebergLake, catalog_of, changing
from rowbus.spark.lake.iceberg_files import Change
from rowbus.spark.lake.merge import DELETED
from rowbus.spark.lake.table import AppTransaction
from rowbus.spark.merge_rule import MergeRule

COLUMNS: list[tuple[str, pa.DataType]] = [("id", pa.int64()), ("note", pa.string()), ("day", pa.date32())]
SCHEMA = pa.schema(COLUMNS)
RULE = MergeRule(("id",), None, None, None)
DAY = date(2026, 11, 24)
pytestmark = pytest.mark.filterwarnings("ignore")  # of the library, about itself

Row = tuple[int, str | None, date | None]


class Orders:
    """An Iceberg table that rows are merged into."""

    def __init__(self, path: Path, *partition_by: str) -> None:
        self.path = path
        self.lake = IcebergLake(Layout(str(path), SCHEMA, partition_by, 2**20, ()), None, None)
        self.batches = 0

    def merge(self, *rows: Row, rule: MergeRule = RULE) -> None:
        columns = [
            pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), SCHEMA.types, strict=True)
        ]
        assert self.lake.merge(pa.table(columns, schema=SCHEMA), AppTransaction("query", self.batches), rule)
        self.batches += 1

    @contextmanager
    def change(self) -> Iterator[Change]:
        with changing(self.table(), AppTransaction("query", self.batches)) as change:
            yield change

    def table(self) -> Any:  # noqa: ANN401 - what it returns is not annotated in full
        with closing(catalog_of(str(self.path))) as catalog:
            return catalog.load_table("lake.orders")

    def rows(self) -> list[Row]:
        found = self.table().scan().to_arrow()
        rows = zip(*(found.column(name).to_pylist() for name in SCHEMA.names), strict=True)
        return sorted(rows, key=lambda row: row[0])

    def files(self) -> set[str]:
        return {task.file.file_path for task in self.table().scan().plan_files()}


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path / "orders")


def test_a_batch_is_one_snapshot_that_names_it(orders: Orders) -> None:
    orders.merge((1, "a", DAY), (2, "b", DAY))
    orders.merge((2, "B", DAY), (3, "c", DAY))

    assert orders.rows() == [(1, "a", DAY), (2, "B", DAY), (3, "c", DAY)]
    named = [snapshot.summary["rowbus.batch-id"] for snapshot in orders.table().snapshots()]
    assert named == ["0", "1"]


def test_a_table_whose_folder_was_removed_is_made_anew(orders: Orders) -> None:
    orders.merge((1, "a", DAY))
    shutil.rmtree(orders.path)
    orders.merge((2, "b", DAY))

    assert orders.rows() == [(2, "b", DAY)]


def test_files_without_a_changed_row_stay(orders: Orders) -> None:
    orders.merge((1, "a", DAY), (5, "b", DAY))
    first = orders.files()
    orders.merge((3, "c", DAY), (7, "d", DAY))
    both = orders.files()
    orders.merge((3, "C", DAY), (4, "new", DAY))

    assert first < both
    assert first < orders.files()
    assert len(orders.files()) == 2
    assert len(orders.rows()) == 5


def test_files_whose_statistics_exclude_the_keys_are_not_read(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.merge((1, "a", DAY), (5, "b", DAY))
    orders.merge((10, "c", DAY), (15, "d", DAY))
    read, seen = iceberg_files.Change._read, set[str]()

    def noting(change: Change, task: Any, *columns: Any) -> Iterator[Any]:  # noqa: ANN401 - passed on
        seen.add(task.file.file_path)
        return read(change, task, *columns)

    monkeypatch.setattr(Change, "_read", noting)
    orders.merge((4, "new", DAY), (20, "new", DAY))
    assert len(seen) == 1
    orders.merge(*((number, "new", DAY) for number in range(21, 30 + iceberg_files._FEW)))
    assert len(seen) == 1


def test_a_merge_that_changes_nothing_leaves_all_files(orders: Orders) -> None:
    rule = MergeRule(("id",), "day", None, None)
    orders.merge((1, "a", DAY), (5, "b", DAY), rule=rule)
    before = orders.files()
    orders.merge((1, "late", date(2026, 11, 23)), rule=rule)

    assert orders.files() == before
    assert orders.rows() == [(1, "a", DAY), (5, "b", DAY)]


def test_more_keys_than_statistics_are_asked_for_are_merged(orders: Orders) -> None:
    count = 3 * iceberg_files._FEW
    orders.merge(*((number, "old", DAY) for number in range(count)))
    orders.merge(*((number, "new", DAY) for number in range(1, count, 2)))

    assert [note for _id, note, _day in orders.rows()] == ["old", "new"] * (count // 2)


def test_rows_move_between_partitions_of_dates_of_texts_and_of_nothing(tmp_path: Path) -> None:
    orders, later = Orders(tmp_path / "orders", "day", "note"), date(2026, 11, 25)
    orders.merge((1, "a", DAY), (2, "b", DAY), (3, None, DAY), (4, "a", None), (5, None, None))
    orders.merge((1, "a", later), (3, "c", DAY), (4, "a", DAY), (6, None, None))
    orders.merge((2, "b", DAY), (5, None, None))

    assert orders.rows() == [
        (1, "a", later),
        (2, "b", DAY),
        (3, "c", DAY),
        (4, "a", DAY),
        (5, None, None),
        (6, None, None),
    ]
    assert orders.table().scan("note = 'a'").to_arrow().num_rows == 2


@pytest.mark.slow
def test_metadata_does_not_grow_with_the_batches(orders: Orders) -> None:
    for number in range(50):
        orders.merge((1, f"{number}", DAY), (number, "x", DAY)) if number > 1 else orders.merge((1, "0", DAY))

    snapshot = orders.table().current_snapshot()
    assert len(snapshot.manifests(orders.table().io)) <= iceberg_files._MANIFESTS + 2
    assert len(orders.rows()) == 49


def test_old_snapshots_are_forgotten_in_the_commit_of_a_batch(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_files, "SNAPSHOTS", 3)
    for number in range(5):
        orders.merge((number, "a", DAY))
    first = orders.table().snapshots()[0].snapshot_id
    with orders.table().manage_snapshots() as snapshots:
        snapshots.create_tag(first, "of a user")
    with orders.change() as change:
        change.replace([])
        change.forget_old()

    kept = orders.table().snapshots()
    assert [snapshot.summary["rowbus.batch-id"] for snapshot in kept] == ["0", "3", "4", "5"]
    assert orders.rows() == []


def test_files_are_written_while_rows_are_read(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a first copy would hold all the rows of its table in memory."""
    orders.merge((0, "a", DAY))
    monkeypatch.setattr(iceberg_files, "FILE_BYTES", 1)
    monkeypatch.setattr(files, "GROUP", 1)
    seen: list[int] = []

    def rows() -> Iterator[pa.RecordBatch]:
        for number in range(1, 5):
            seen.append(len(list(orders.path.glob("data/*.parquet"))))
            yield pa.RecordBatch.from_pylist([{"id": number, "note": "b", "day": DAY}], schema=SCHEMA)

    with orders.change() as change:
        change.replace(rows())

    assert seen == [1, 1, 2, 3]
    assert [row[0] for row in orders.rows()] == [1, 2, 3, 4]


def test_a_column_of_deletions_alone_deletes(orders: Orders) -> None:
    orders.merge((1, "a", DAY), (2, "b", DAY))
    gone = pa.table(
        {"id": [1, 9], "note": ["", ""], "day": pa.array([None, None], pa.date32()), DELETED: [True, True]}
    )
    with orders.change() as change:
        change.merge_newest(gone, ["id"])

    assert orders.rows() == [(2, "b", DAY)]
