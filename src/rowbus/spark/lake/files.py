"""Parquet files of a lake's table, written by tasks; readers ignore a file until the driver has committed it.

Each attempt gives its files new names, so attempts never collide. A file that no commit names is a leftover.

Invariant: a file is complete when its `DataFile` exists, and is never written again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from rowbus.spark.lake.storage import file_system, is_remote

if TYPE_CHECKING:
    from datetime import datetime

    from pyarrow import fs

FOLDER: Final = "data"
LONGEST: Final = 64  # characters of a text that statistics may hold

PIECE: Final = 2**20
"""Bytes, about, that are handled at once where rows are handed over one batch after the other."""

GROUP: Final = 2**23
"""Bytes of a row group at most, about, before they are compressed: so much is read at once."""

_arrow: Any = pa  # its stubs lack some functions, and know no arrays of any type

Partition = dict[str, Any]
Rows = Iterable[pa.RecordBatch]
"""Rows that are handed over one batch after the other."""


@dataclass(frozen=True)
class DataFile:
    """A file of a table: its path within the table's folder, its size, its rows, and its statistics."""

    path: str
    size: int
    rows: int
    partition: Partition
    least: dict[str, object] = field(default_factory=dict)
    greatest: dict[str, object] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder, schema and partitions of a table, and the size of its files."""

    path: str
    schema: pa.Schema
    partition_by: tuple[str, ...]
    target_bytes: int
    leave_out: tuple[str, ...]
    """Columns that are in the table's log and not in files."""

    @property
    def in_files(self) -> pa.Schema:
        """The columns of a file."""
        schema: Any = self.schema  # its stubs are partial
        return pa.schema([schema.field(name) for name in schema.names if name not in self.leave_out])


class Files:
    """The files of one task: one for each combination of partition values, and another when one is full."""

    def __init__(self, layout: Layout, label: str) -> None:
        """Take the layout; `label` begins the files' names. No I/O."""
        self._layout = layout
        self._label = label
        self._system, self._root = file_system(layout.path)
        self._open: dict[tuple[object, ...], OpenFile] = {}
        self._done: list[DataFile] = []

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[DataFile]:
        """Write everything, and return the files."""
        rows = (conformed(batch, self._layout.schema) for batch in batches)
        for batch in grouped(rows, self._layout.target_bytes):
            for partition, part in split(batch, self._layout.partition_by):
                self._add(partition, part)
        for key in list(self._open):
            self._finish(key)
        return self._done

    def _add(self, partition: Partition, batch: pa.RecordBatch) -> None:
        key = tuple(partition.values())
        if key not in self._open:
            self._open[key] = self._begin(partition)
        if self._open[key].add(batch) >= self._layout.target_bytes:
            self._finish(key)

    def _begin(self, partition: Partition) -> OpenFile:
        name = f"{FOLDER}/{self._label}-{secrets.token_hex(8)}.parquet"
        if not is_remote(self._layout.path):
            self._system.create_dir(f"{self._root}/{FOLDER}", recursive=True)
        return OpenFile(self._system, self._root, name, partition, self._layout.in_files)

    def _finish(self, key: tuple[object, ...]) -> None:
        self._done.append(self._open.pop(key).close())


class OpenFile:
    """A file being written."""

    def __init__(
        self, system: fs.FileSystem, root: str, name: str, partition: Partition, schema: pa.Schema
    ) -> None:
        """Create the file."""
        self._name = name
        self._partition = partition
        self._schema = schema
        self._metadata: list[pq.FileMetaData] = []
        self._sink = system.open_output_stream(f"{root}/{name}")
        self._writer = pq.ParquetWriter(
            self._sink, schema, compression="zstd", metadata_collector=self._metadata
        )

    def add(self, batch: pa.RecordBatch) -> int:
        """Write some rows, and return the size so far."""
        self._writer.write_batch(batch.select(self._schema.names))
        return int(self._sink.tell())

    def close(self) -> DataFile:
        """Complete the file."""
        self._writer.close()
        size = int(self._sink.tell())
        self._sink.close()
        (metadata,) = self._metadata
        return DataFile(self._name, size, metadata.num_rows, self._partition, *_statistics(metadata))


def split(batch: pa.RecordBatch, by: tuple[str, ...]) -> Iterator[tuple[Partition, pa.RecordBatch]]:
    """Separate rows by the values of columns."""
    if not by:
        yield {}, batch
        return
    keys = pa.Table.from_batches([batch.select(list(by))])
    numbered = keys.append_column("row", pa.array(range(batch.num_rows), pa.int64()))
    for group in numbered.group_by(list(by)).aggregate([("row", "list")]).to_pylist():
        yield {name: group[name] for name in by}, batch.take(pa.array(cast("list[int]", group["row_list"])))


def in_pieces(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut batches, of which ADBC makes one of 16 MB, so that few of them are in memory at a time."""
    for batch in rows:
        most = max(1, batch.num_rows * PIECE // max(batch.nbytes, 1))
        for begin in range(0, batch.num_rows, most):
            yield batch.slice(begin, most)


def grouped(rows: Iterable[pa.RecordBatch], file_bytes: int | None = None) -> Iterator[pa.RecordBatch]:
    """Cut large batches and join small ones, so that each makes a row group, and is no more than a file may have."""
    most = GROUP if file_bytes is None else min(GROUP, file_bytes)
    held, size = list[pa.RecordBatch](), 0
    for batch in in_pieces(rows):
        if held and size + batch.nbytes > most:
            yield _arrow.concat_batches(held)
            held, size = [], 0
        held.append(batch)
        size += batch.nbytes
    if held:
        yield _arrow.concat_batches(held)


def conformed(batch: Any, schema: pa.Schema) -> pa.RecordBatch:  # noqa: ANN401 - a batch, whose stubs are partial
    """Return rows in other columns, found by their names; NULL where they have none."""
    there = set(batch.schema.names)
    columns: Any = [
        batch.column(name).cast(kind) if name in there else _arrow.nulls(batch.num_rows, kind)
        for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    rows: pa.RecordBatch = _arrow.RecordBatch.from_arrays(columns, schema=schema)
    return rows


def read_groups(
    file: Any,  # noqa: ANN401 - a file that PyArrow reads, or has opened
    columns: Iterable[str] | None = None,
    groups: Iterable[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read a Parquet file, about a row group of ours at a time; columns that it does not have are left out."""
    parquet: Any = file if isinstance(file, pq.ParquetFile) else opened(file)
    there = parquet.schema_arrow.names
    names = there if columns is None else [name for name in columns if name in there]
    for group in range(parquet.num_row_groups) if groups is None else groups:
        about = parquet.metadata.row_group(group)
        most = max(1, about.num_rows * GROUP // max(about.total_byte_size, 1))
        yield from parquet.iter_batches(most, [group], names, use_threads=False)


def opened(file: Any) -> Any:  # noqa: ANN401 - as above
    """Open a Parquet file of which little is in memory at a time."""
    return pq.ParquetFile(file, buffer_size=PIECE, pre_buffer=False)


def read(layout: Layout, files: Iterable[DataFile]) -> pa.Table:
    """Read files of a table's folder, all at once."""
    system, root = file_system(layout.path)
    parquet: Any = pq  # its stubs are partial
    parts = [parquet.read_table(f"{root}/{file.path}", filesystem=system) for file in files]
    return pa.concat_tables([part.cast(layout.schema) for part in parts])


def remove(path: str, names: Iterable[str]) -> None:
    """Delete files of a table's folder that no commit will ever name; missing ones are skipped."""
    system, root = file_system(path)
    for name in names:
        try:
            system.delete_file(f"{root}/{name}")
        except FileNotFoundError:
            continue


Statistics = tuple[dict[str, object], dict[str, object], dict[str, int]]


def _statistics(metadata: pq.FileMetaData) -> Statistics:
    """Collect least and greatest values and nulls of the plain columns from a file's footer."""
    least, greatest, nulls = dict[str, Any](), dict[str, Any](), dict[str, int]()
    unknown = set[str]()
    for column in _chunks(metadata):
        name, found = column.path_in_schema, cast("Any", column.statistics)  # the stubs lack half of it
        if "." in name or found is None or not found.has_null_count:
            unknown.add(name)
            continue
        nulls[name] = nulls.get(name, 0) + found.null_count
        try:
            if found.has_min_max:
                least[name] = min(least.get(name, found.min), found.min)
                greatest[name] = max(greatest.get(name, found.max), found.max)
            elif found.num_values:
                unknown.add(name)
        except OverflowError:  # a time before the year 1 or after 9999, which Python does not have
            unknown.add(name)
    return _without(least, unknown), _without(greatest, unknown), _without(nulls, unknown)


def _chunks(metadata: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        yield from map(group.column, range(group.num_columns))


def _without(values: Mapping[str, Any], unknown: set[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in unknown}


def in_milliseconds(moment: datetime) -> str:
    """Return a time as Delta's statistics have it, cut to milliseconds."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
