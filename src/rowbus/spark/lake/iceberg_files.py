"""Changes of an Iceberg table's files, staged in a transaction: rows are added, replaced, or merged by their key.

The library's own upsert compares rows one by one in Python, and knows no deletions; so a merge is made here of what it
offers: each file that has a changed row is written anew without it (copy on write). Only the keys of the files that may
have one of the changed keys are read to find them.

Invariant: a change of a table is one snapshot, and nothing is in the table before the transaction commits.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import expressions
from pyiceberg.io.pyarrow import ArrowScan, bin_pack_record_batches, schema_to_pyarrow, write_file
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.table import ALWAYS_TRUE, FileScanTask, WriteTask
from pyiceberg.table.update.snapshot import ExpireSnapshots

from rowbus.spark.lake.files import split
from rowbus.spark.lake.merge import DELETED, RowKeys
from rowbus.spark.lake.policy import MANY, to_merge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table, Transaction
    from pyiceberg.typedef import Record

_compute: Any = pc  # its stubs lack many functions
_expressions: Any = expressions  # type checkers do not see what its constructors accept

FILE_BYTES: Final = 64 * 2**20
"""Rows in memory, before they are compressed, that make a file; a merge holds about twice as much."""

SNAPSHOTS: Final = 100
"""The number of snapshots that a table keeps that is changed batch after batch: each commit writes the list of them."""

_ROWS: Final = 2**16
_FEW: Final = 200  # values that the library looks for in a file's statistics one by one
_MANIFESTS: Final = 20

PROPERTIES: Final = {
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": str(_MANIFESTS),
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
"""Properties that keep the metadata of a table with many commits small."""


class _AffectedFile(NamedTuple):
    """A file that has rows with the keys of changes, and the places of these."""

    task: FileScanTask
    places: set[int]


class Change(NamedTuple):
    """A table, the transaction that changes it, and what its snapshots say of the batch."""

    table: Table
    transaction: Transaction
    named: dict[str, str]

    def add(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Add rows."""
        self._commit([], self._write(rows))

    def replace(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Replace the contents; reads the rows one file at a time."""
        self._commit([task.file for task in self._files(ALWAYS_TRUE)], self._write(rows))

    def merge(self, changes: pa.Table, keys: Sequence[str], sequence: str | None = None) -> None:
        """Write or delete rows, one for each key; with a sequence, a row older than the table's changes nothing."""
        touched, late = self._find(changes, keys, sequence)
        fresh: Any = changes.filter(
            pa.array([place not in late for place in range(changes.num_rows)], pa.bool_())
        )
        gone = [it.task for it in touched if not it.places <= late]
        written = fresh.filter(_compute.invert(fresh.column(DELETED))).drop_columns([DELETED])
        changed, added = RowKeys(fresh, keys), list[DataFile]()
        for partition, (tasks, rows) in self._by_partition(gone, written).items():
            values = [partition[place] for place in range(len(partition))]
            added += self._write(self._kept(tasks, changed, rows), self._key(values))
        self._commit([task.file for task in gone], added)

    def compact(self) -> int:
        """Write small files anew as fewer, of a table without partitions; return how many files that replaces."""
        tasks = self._files(ALWAYS_TRUE)
        if len(tasks) < MANY:
            return 0
        width = self._width(tasks)
        small = [tasks[place] for place in to_merge([task.file.record_count * width for task in tasks])]
        if small:
            rows = (batch for task in small for batch in self._read(task))
            self._commit([task.file for task in small], self._write(rows))
        return len(small)

    def forget_old(self) -> None:
        """Forget the oldest snapshots when there are twice as many as are kept; those with a tag or branch stay."""
        snapshots = self.transaction.table_metadata.snapshots
        times = sorted(snapshot.timestamp_ms for snapshot in snapshots)
        if len(times) >= 2 * SNAPSHOTS:
            oldest = datetime.fromtimestamp(times[-SNAPSHOTS] / 1000, UTC)
            ExpireSnapshots(self.transaction).older_than(oldest).commit()

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read all rows, one file at a time."""
        for task in self._files(ALWAYS_TRUE):
            yield from self._read(task)

    def _find(
        self, changes: pa.Table, keys: Sequence[str], sequence: str | None
    ) -> tuple[list[_AffectedFile], set[int]]:
        """Return the files that have rows with the keys of changes, and the changes that are late."""
        index, found, late = RowKeys(changes, keys), list[_AffectedFile](), set[int]()
        columns = [*keys, sequence] if sequence else list(keys)
        for task in self._files(_around(changes, keys)):
            places = set[int]()
            for rows in self._read(task, columns):
                of = index.places(rows)
                places |= set(of.drop_null().to_pylist())
                if sequence:
                    late |= _late(changes.column(sequence), of, rows.column(sequence))
            if places:
                found.append(_AffectedFile(task, places))
        return found, late

    def _files(self, filtered: BooleanExpression) -> list[FileScanTask]:
        return list(self.table.scan(filtered).plan_files())

    def _read(self, task: FileScanTask, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Read columns of a file, without the rows that another program deleted by position."""
        metadata = self.transaction.table_metadata
        schema = metadata.schema().select(*columns) if columns else metadata.schema()
        return ArrowScan(metadata, self.table.io, schema, ALWAYS_TRUE).to_record_batches([task])

    def _width(self, tasks: Iterable[FileScanTask]) -> int:
        """Return about how many bytes a row takes in memory, by which files are cut."""
        batch = next((batch for task in tasks for batch in self._read(task) if batch.num_rows), None)
        return 0 if batch is None else int(batch.nbytes // batch.num_rows) + 1

    def _by_partition(
        self, files: Iterable[FileScanTask], rows: pa.Table
    ) -> dict[Record, tuple[list[FileScanTask], list[pa.RecordBatch]]]:
        groups: Any = defaultdict(lambda: (list[FileScanTask](), list[pa.RecordBatch]()))
        for task in files:
            groups[task.file.partition][0].append(task)
        for batch in rows.to_batches(max_chunksize=_ROWS):
            for partition, part in split(batch, self._partitioned_by()):
                groups[self._key(partition.values()).partition][1].append(part)
        found: dict[Record, tuple[list[FileScanTask], list[pa.RecordBatch]]] = groups
        return found

    def _kept(
        self, files: Iterable[FileScanTask], changed: RowKeys, rows: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of files that did not change, then the new ones."""
        for task in files:
            for batch in self._read(task):
                yield batch.filter(changed.places(batch).is_null())
        yield from rows

    def _write(self, rows: Iterable[pa.RecordBatch], key: PartitionKey | None = None) -> Iterator[DataFile]:
        """Write files, one after the other: the library's own way would first read everything."""
        metadata = self.transaction.table_metadata
        schema = metadata.schema()
        arrow = schema_to_pyarrow(schema, include_field_ids=False)
        given: Any = (batch.cast(arrow) for batch in rows if batch.num_rows)
        partition = key if key and key.field_values else None
        for number, batches in enumerate(bin_pack_record_batches(given, FILE_BYTES)):
            task = WriteTask(uuid4(), number, schema, batches, partition_key=partition)
            yield from write_file(self.table.io, metadata, iter([task]))

    def _commit(self, gone: Iterable[DataFile], added: Iterable[DataFile]) -> None:
        gone, added = list(gone), list(added)
        update = self.transaction.update_snapshot(snapshot_properties=self.named)
        with update.overwrite() if gone else update.merge_append() as snapshot:
            for file in gone:
                snapshot.delete_data_file(file)
            for file in added:
                snapshot.append_data_file(file)
        if gone and self._manifests() >= _MANIFESTS:
            with update.merge_append():  # only an append merges the lists of files
                pass

    def _manifests(self) -> int:
        snapshot = self.table.current_snapshot()
        return len(snapshot.manifests(self.table.io)) if snapshot else 0

    def _partitioned_by(self) -> tuple[str, ...]:
        metadata = self.transaction.table_metadata
        return tuple(metadata.schema().find_field(field.source_id).name for field in metadata.spec().fields)

    def _key(self, values: Iterable[Any]) -> PartitionKey:
        metadata = self.transaction.table_metadata
        spec = metadata.spec()
        found = [PartitionFieldValue(field, value) for field, value in zip(spec.fields, values, strict=True)]
        return PartitionKey(found, spec, metadata.schema())


def named_files(table: Table) -> set[str]:
    """Return the files of all snapshots, and the lists of these files, by their addresses."""
    lists = {snapshot.manifest_list for snapshot in table.snapshots()}
    manifests = table.inspect.all_manifests().column("path").to_pylist()
    return {
        *lists,
        *map(str, manifests),
        *map(str, table.inspect.all_files().column("file_path").to_pylist()),
    }


def _late(changing: Any, places: Any, there: Any) -> set[int]:  # noqa: ANN401 - arrays, whose stubs are partial
    """Return the changes that are older than the table's rows."""
    older = _compute.less(changing.take(places).combine_chunks(), there.cast(changing.type))
    return set(places.filter(older, null_selection_behavior="drop").to_pylist())


def _around(changes: pa.Table, keys: Sequence[str]) -> BooleanExpression:
    """Return an expression that is true for the keys of changes, and for as few others as is cheap."""
    found: BooleanExpression = ALWAYS_TRUE
    for name in keys:
        values: Any = changes.column(name)
        if not (pa.types.is_integer(values.type) or pa.types.is_string(values.type)) or values.null_count:
            continue
        unique = values.unique().to_pylist()
        if 0 < len(unique) <= _FEW:
            found = _expressions.And(found, _expressions.In(name, unique))
        elif unique:
            least, most = min(unique), max(unique)
            within = _expressions.GreaterThanOrEqual(name, least), _expressions.LessThanOrEqual(name, most)
            found = _expressions.And(found, *within)
    return found
