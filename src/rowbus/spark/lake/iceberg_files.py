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
import pyarrow.parquet as pq
from pyiceberg import expressions
from pyiceberg.io.pyarrow import (
    ArrowScan,
    ParquetFormatWriter,
    _to_requested_schema,  # pyright: ignore[reportPrivateUsage]  # what ArrowScan uses, without reading all
    pyarrow_to_schema,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.schema import prune_columns, sanitize_column_names
from pyiceberg.table import ALWAYS_TRUE, FileScanTask
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.update.snapshot import ExpireSnapshots
from pyiceberg.typedef import Record
from pyiceberg.types import ListType, MapType

from rowbus.spark.lake.files import grouped, read_groups, split
from rowbus.spark.lake.merge import DELETED, RowKeys
from rowbus.spark.lake.policy import MANY, to_merge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table, Transaction

_compute: Any = pc  # its stubs lack many functions
_parquet: Any = pq  # its stubs know no files of the library
_expressions: Any = expressions  # type checkers do not see what its constructors accept

FILE_BYTES: Final = 64 * 2**20
"""Rows that make a file, before they are compressed."""

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

    def merge_newest(self, changes: pa.Table, keys: Sequence[str], sequence: str | None = None) -> None:
        """Write or delete rows, one for each key; with a sequence, a row older than the table's changes nothing."""
        touched, late = self._find(changes, keys, sequence)
        fresh: Any = changes.filter(
            pa.array([place not in late for place in range(changes.num_rows)], pa.bool_())
        )
        gone = [it.task for it in touched if not it.places <= late]
        written = fresh.filter(_compute.invert(fresh.column(DELETED))).drop_columns([DELETED])
        self._rewrite(gone, RowKeys(fresh, keys), written.to_batches(max_chunksize=_ROWS))

    def merge(self, changed: pa.Table, rows: Iterable[pa.RecordBatch], keys: Sequence[str]) -> None:
        """Write rows instead of those with the keys of changes; reads few rows at a time."""
        touched, _ = self._find(changed, keys, None)
        self._rewrite([it.task for it in touched], RowKeys(changed, keys), rows)

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

    def _rewrite(
        self, gone: Sequence[FileScanTask], changed: RowKeys, rows: Iterable[pa.RecordBatch]
    ) -> None:
        """Write rows, and files anew without the rows that changed."""
        added = list[DataFile]()
        if not self._partitioned_by():
            added += self._write(self._kept(gone, changed, rows))
        else:
            for partition, (tasks, parts) in self._by_partition(gone, rows).items():
                values = [partition[place] for place in range(len(partition))]
                added += self._write(self._kept(tasks, changed, parts), self._key(values))
        self._commit([task.file for task in gone], added)

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
        """Read columns of a file, without the rows that another program deleted by position.

        The library reads a whole file at once; it does so here only where such deletions are.
        """
        metadata = self.transaction.table_metadata
        schema = metadata.schema().select(*columns) if columns else metadata.schema()
        if task.delete_files or len(task.file.partition):
            yield from ArrowScan(metadata, self.table.io, schema, ALWAYS_TRUE).to_record_batches([task])
            return
        with self.table.io.new_input(task.file.file_path).open() as file:
            described, names = _parquet.read_schema(file), metadata.name_mapping()
            told = pyarrow_to_schema(described, names, format_version=metadata.format_version)
            single = {
                it for it in schema.field_ids if not isinstance(schema.find_type(it), (ListType, MapType))
            }
            there = prune_columns(told, single, select_full_types=False)
            file.seek(0)
            for rows in read_groups(file, [field.name for field in there.fields]):
                yield _to_requested_schema(schema, there, rows, allow_timestamp_tz_mismatch=True)

    def _width(self, tasks: Iterable[FileScanTask]) -> int:
        """Return about how many bytes a row takes in memory, by which files are cut."""
        batch = next((batch for task in tasks for batch in self._read(task) if batch.num_rows), None)
        return 0 if batch is None else int(batch.nbytes // batch.num_rows) + 1

    def _by_partition(
        self, files: Iterable[FileScanTask], rows: Iterable[pa.RecordBatch]
    ) -> dict[Record, tuple[list[FileScanTask], list[pa.RecordBatch]]]:
        groups: Any = defaultdict(lambda: (list[FileScanTask](), list[pa.RecordBatch]()))
        for task in files:
            groups[task.file.partition][0].append(task)
        for batch in rows:
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
        """Write files, one after the other, a row group at a time: the library would read everything first."""
        schema = sanitize_column_names(self.transaction.table_metadata.schema())
        arrow = schema_to_pyarrow(schema)
        groups = grouped(_renamed(batch, arrow) for batch in rows if batch.num_rows)
        for first in groups:
            yield self._write_file(schema, _filling(first, groups), key if key and key.field_values else None)

    def _write_file(
        self, schema: Schema, groups: Iterable[pa.RecordBatch], key: PartitionKey | None
    ) -> DataFile:
        metadata = self.transaction.table_metadata
        places = load_location_provider(metadata.location, metadata.properties)
        path = places.new_data_location(f"{uuid4()}.parquet", key)
        output = self.table.io.new_output(path)
        writer = ParquetFormatWriter(output, schema, metadata.properties)
        with writer:
            for rows in groups:
                writer.write(pa.Table.from_batches([rows]))
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=key.partition if key else Record(),
            file_size_in_bytes=len(output),
            sort_order_id=None,
            spec_id=metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **writer.result().to_serialized_dict(),
        )

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


def _renamed(batch: Any, schema: pa.Schema) -> pa.RecordBatch:  # noqa: ANN401 - a batch, whose stubs are partial
    columns = [column.cast(kind) for column, kind in zip(batch.columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _filling(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take rows until they make a file."""
    yield first
    size = first.nbytes
    while size < FILE_BYTES and (rows := next(others, None)) is not None:
        size += rows.nbytes
        yield rows


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
