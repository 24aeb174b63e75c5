"""Writers of lakes, without a jar: tasks write Parquet, the driver commits through delta-rs or pyiceberg.

| Spark does | here |
|---|---|
| runs a task again, or twice at once | each attempt has its own files; only the successful one's are committed |
| commits a batch again, after a crash | the table has a record of the batch; the new files are deleted |
| aborts | nothing: the commit may have happened. `lake.leftovers.collect` deletes leftovers |

Invariant: a batch of a query is in the table once or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from rowbus.errors import ConfigurationError, RowbusError
from rowbus.spark.datasource import one_sentence, spare_collections
from rowbus.spark.lake.files import DataFile, Files, Layout, read, remove
from rowbus.spark.lake.options import LAKE_SINK
from rowbus.spark.lake.storage import address
from rowbus.spark.lake.table import AppTransaction
from rowbus.spark.merge_rule import merge_rule
from rowbus.spark.options import parse_options

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from rowbus.spark.lake.table import Lake
    from rowbus.spark.merge_rule import MergeRule

_QUERY: Final = "sql.streaming.queryId"
_WIDENED: Final[dict[pa.DataType, pa.DataType]] = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
}  # Iceberg's smallest whole number


@dataclass
class WrittenFiles(WriterCommitMessage):
    """The files of a task, and its query."""

    query: str | None
    files: list[DataFile]


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """The options of a lake, parsed."""

    deliver: str
    layout: Layout
    table: str | None
    catalog: str | None
    app: str | None
    version: int | None
    overwrite: bool
    rule: MergeRule | None = None
    """The rule by which rows are merged; None: they are added."""

    @property
    def staged(self) -> Layout:
        """The way in which tasks write their rows: as the table has them, or to be merged by the driver."""
        return self.layout if self.rule is None else replace(self.layout, partition_by=(), leave_out=())

    def lake(self) -> Lake:
        """Return the table to commit to."""
        if self.deliver == "delta":
            from rowbus.spark.lake.delta import DeltaLake  # noqa: PLC0415 - only the library that is asked for

            return DeltaLake(self.layout)
        from rowbus.spark.lake.iceberg import IcebergLake  # noqa: PLC0415 - as above

        return IcebergLake(self.layout, self.table, self.catalog)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> LakeBatchWriter:  # noqa: FBT001 - Spark's
    """Return the writer of a data frame: one commit; with `txnAppId` and `txnVersion` once, also when repeated."""
    settings = read_options(options, schema, overwrite=overwrite)
    if (settings.app is None) != (settings.version is None):
        raise ConfigurationError("Give both 'txnAppId' and 'txnVersion', or neither.", option="txnVersion")
    return LakeBatchWriter(settings)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> LakeStreamWriter:  # noqa: FBT001 - Spark's
    """Return the writer of micro-batches: one commit each, once; in complete mode it replaces the contents."""
    settings = read_options(options, schema, overwrite=overwrite)
    if settings.version is not None:
        raise ConfigurationError(
            "A stream numbers its batches itself: leave out 'txnVersion'.", option="txnVersion"
        )
    return LakeStreamWriter(settings)


class LakeBatchWriter(DataSourceArrowWriter):
    """Write a data frame."""

    def __init__(self, settings: LakeSettings) -> None:
        """Take the settings. No I/O."""
        self._settings = settings

    def write(  # type: ignore[override]  # Spark's own
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """Write a task's rows to files of its own."""
        return _write(self._settings, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the files of the successful tasks."""
        settings = self._settings
        batch = (
            None
            if settings.app is None or settings.version is None
            else AppTransaction(settings.app, settings.version)
        )
        _commit(settings, messages, batch)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete nothing: a failed commit may have happened."""


class LakeStreamWriter(DataSourceStreamArrowWriter):
    """Write the micro-batches of a stream."""

    def __init__(self, settings: LakeSettings) -> None:
        """Take the settings. No I/O."""
        self._settings = settings

    def write(  # type: ignore[override]  # Spark's own
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """Write a task's rows to files of its own."""
        return _write(self._settings, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit the files of the successful tasks, unless the table has the batch."""
        app = self._settings.app or next((found.query for found in _written(messages) if found.query), None)
        _commit(self._settings, messages, None if app is None else AppTransaction(app, batchId))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - as above
        """Delete nothing: a failed commit may have happened."""


def _write(settings: LakeSettings, batches: Iterator[pa.RecordBatch]) -> WrittenFiles:
    from pyspark import TaskContext  # noqa: PLC0415 - only in executors

    context = TaskContext.get()
    query = context.getLocalProperty(_QUERY) if context else None
    label = f"{(query or 'batch')[:8]}-{context.partitionId() if context else 0}"
    with _far_times_refused():
        written = WrittenFiles(query, Files(settings.staged, label).write(batches))
    spare_collections()
    return written


def _commit(
    settings: LakeSettings, messages: Sequence[WriterCommitMessage | None], batch: AppTransaction | None
) -> None:
    files = [file for found in _written(messages) for file in found.files]
    if not files and not settings.overwrite:
        return
    try:
        with _far_times_refused():
            if settings.rule is not None:
                _merge(settings, files, batch, settings.rule)
            elif not settings.lake().commit(files, batch, overwrite=settings.overwrite):
                remove(settings.layout.path, [file.path for file in files])
    except RowbusError:
        with one_sentence():
            raise


@contextmanager
def _far_times_refused() -> Generator[None]:
    """Raise ConfigurationError for a date or time that Python does not have, and so pyiceberg does not."""
    try:
        yield
    except OverflowError as error:
        raise ConfigurationError(
            "A date or time lies outside of the years 1 to 9999: Iceberg tables, partitions and keys of merges take "
            "none. Cast its column to string."
        ) from error


def _merge(
    settings: LakeSettings, files: Sequence[DataFile], batch: AppTransaction | None, rule: MergeRule
) -> None:
    """Merge what the tasks wrote, and delete their files: the table never names them."""
    layout = settings.layout
    columns = zip(layout.schema.names, layout.schema.types, strict=True)
    kept = pa.schema([(name, kind) for name, kind in columns if name != rule.delete])
    replace(settings, layout=replace(layout, schema=kept)).lake().merge(read(layout, files), batch, rule)
    remove(layout.path, [file.path for file in files])


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenFiles]:
    return [message for message in messages if isinstance(message, WrittenFiles)]


def read_options(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> LakeSettings:
    """Read the options; raises ConfigurationError for column types that lakes do not have."""
    given = parse_options(options, LAKE_SINK, of="the lake sink")
    if given["path"] is None:
        raise ConfigurationError("Option 'path' is missing: the table's folder.", option="path")
    arrow = _arrow(schema, given["deliver"])
    _refuse_unfit_partitions(arrow, given["partitionBy"])
    layout = Layout(
        path=address(given["path"]),
        schema=arrow,
        partition_by=given["partitionBy"],
        target_bytes=given["targetFileBytes"],
        leave_out=given["partitionBy"] if given["deliver"] == "delta" else (),
    )
    return LakeSettings(
        given["deliver"],
        layout,
        given["table"],
        given["catalog"],
        given["txnAppId"],
        given["txnVersion"],
        overwrite,
        _rule(given, arrow, overwrite=overwrite),
    )


def _rule(given: Mapping[str, Any], schema: pa.Schema, *, overwrite: bool) -> MergeRule | None:
    """Read how rows are merged; None where they are added."""
    merging = [name for name in ("sequenceBy", "deleteWhen") if given[name] is not None]
    if not given["mergeKeys"]:
        if merging:
            raise ConfigurationError(
                f"Option {merging[0]!r} is for merges: give 'mergeKeys', too.", option="mergeKeys"
            )
        return None
    if overwrite:
        raise ConfigurationError("Rows are merged in mode append only.", option="mergeKeys")
    rule = merge_rule(given, schema.names)
    if rule.delete is not None and rule.delete in (*given["partitionBy"], *rule.keys, rule.sequence):
        raise ConfigurationError(
            f"The column {rule.delete!r} says which rows delete; it is not in the table.", option="deleteWhen"
        )
    return rule


def _arrow(schema: StructType, deliver: str) -> pa.Schema:
    """Return the columns of the table, of which each may be NULL, as may all that they are made of."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - Spark's, and slow to import

    for field in schema:
        _refuse_unfit_type(field.name, field.dataType)
    twice = Counter(map(str.lower, schema.names)).most_common(1)
    if deliver == "delta" and twice and twice[0][1] > 1:
        raise ConfigurationError(
            f"Two columns are called {twice[0][0]!r} but for upper and lower case, which Delta's readers cannot tell "
            "apart: rename one."
        )
    arrow = to_arrow_schema(schema.toNullable(), timezone="UTC")
    widened: dict[pa.DataType, pa.DataType] = _WIDENED if deliver == "iceberg" else {}
    columns = zip(arrow.names, arrow.types, strict=True)
    return pa.schema([(name, widened.get(kind, kind)) for name, kind in columns])


def _refuse_unfit_type(column: str, kind: DataType) -> None:
    from pyspark.sql import types as spark  # noqa: PLC0415 - only where Spark is

    if isinstance(kind, spark.ArrayType):
        _refuse_unfit_type(column, kind.elementType)
    elif isinstance(kind, spark.MapType):
        _refuse_unfit_type(column, kind.keyType)
        _refuse_unfit_type(column, kind.valueType)
    elif isinstance(kind, spark.StructType):
        for field in kind:
            _refuse_unfit_type(column, field.dataType)
    elif isinstance(kind, (spark.NullType, spark.AnsiIntervalType, spark.VariantType)):
        raise ConfigurationError(
            f"The column {column!r} has the type {kind.simpleString()}, which lakes do not have: cast it to string."
        )


def _refuse_unfit_partitions(schema: pa.Schema, by: tuple[str, ...]) -> None:
    if len({*by}) < len(by) or len(by) == len(schema.names):
        raise ConfigurationError(
            "Columns to partition by are named once each, and leave others for the files.",
            option="partitionBy",
        )
    for name in by:
        if name not in schema.names:
            raise ConfigurationError(f"There is no column {name!r} to partition by.", option="partitionBy")
        type_: pa.DataType = schema.types[schema.names.index(name)]
        kinds = (pa.types.is_string, pa.types.is_integer, pa.types.is_date, pa.types.is_boolean)
        if not any(is_kind(type_) for is_kind in kinds):
            raise ConfigurationError(
                f"The column {name!r} ({type_}) cannot separate files; add a column of the day, for example.",
                option="partitionBy",
            )
