"""The reading of a log in an executor: one task, one partition.

Invariant: a partition gives the same events each time it is read. It names them completely, and the tables' files are
compared with those of the plan before the first event and after the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from rowbus.database.postgresql.arrow import Access, arrow_session, conform
from rowbus.errors import DataLossError, StorageError
from rowbus.spark.captured import reading_rows
from rowbus.spark.datasource import spare_collections
from rowbus.spark.json_rows.decoder import decoded
from rowbus.spark.json_rows.layout import Layout
from rowbus.spark.log_source.changes import AFTER, ChangeLayout, changes_decoded, decoder_of, keys_of
from rowbus.spark.log_source.offset import TickSteps
from rowbus.spark.log_source.options import COLUMNS
from rowbus.spark.log_source.snapshot_range import SnapshotRange, find_table_node, prepare_reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rowbus.database.postgresql.arrow import ArrowSession
    from rowbus.database.statements import Query
    from rowbus.spark.captured import SourceTable
    from rowbus.spark.filters import Conditions
    from rowbus.spark.json_rows.layout import RowLayout
    from rowbus.spark.log_source.decisions import BlockRange
    from rowbus.spark.log_source.offset import TickPosition

_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


class TickSpan(NamedTuple):
    """The range between two ticks of a log; retried events belong to it only if they are of this owner."""

    log: str
    begin: TickPosition
    end: TickPosition
    owner: int | None


class LogPartition(InputPartition):
    """The part of one task: some tables between two snapshots, or some blocks of one table."""

    def __init__(
        self,
        access: Access,
        span: TickSpan,
        tables: Sequence[tuple[str, int]],
        *,
        part: BlockRange | None,
        steps: TickSteps,
        statement_timeout: int,
        where: Conditions,
    ) -> None:
        """Take what to read; `tables` are names with the numbers of their files, `where` is on the events."""
        super().__init__(None)
        self.access = access
        self.span = span
        self.tables = tables
        self.part = part
        self.steps = steps
        self.statement_timeout = statement_timeout
        self.where = where

    def queries(self, columns: Sequence[str]) -> list[Query]:
        """Return the queries that read the partition."""
        between = SnapshotRange(self.span.begin, self.span.end, self.span.owner)
        if self.part is not None:
            return between.read_blocks(self.part, columns, self.steps, self.where)
        return [between.read_range(name, columns, self.steps, self.where) for name, _ in self.tables]


class RowsPartition(InputPartition):
    """The rows of a captured table that have not changed since a tick, for one task."""

    def __init__(
        self,
        access: Access,
        table: SourceTable,
        since: TickPosition,
        logged: Sequence[str],
        where: Conditions,
    ) -> None:
        """Take the table, and which of the events in the tables `logged` tell of it."""
        super().__init__(None)
        self.access = access
        self.table = table
        self.since = since
        self.logged = logged
        self.where = where

    def changes_until(self, snapshot: str) -> list[Query]:
        """Return the queries that read the events of the table which a snapshot sees and the tick does not."""
        between = SnapshotRange(self.since, self.since._replace(snap=snapshot), None)
        steps = TickSteps([], [self.since.tick])
        return [between.read_range(name, ("ev_type", "ev_data"), steps, self.where) for name in self.logged]


def arrow_schema(columns: dict[str, str]) -> pa.Schema:
    """Return the types that Spark expects for columns: exactly these, all nullable."""
    return pa.schema({name: _TYPES[kind] for name, kind in columns.items()})


def read_partition(partition: InputPartition, layout: RowLayout) -> Iterator[pa.RecordBatch]:
    """Stream a partition's events; raises DataLossError when they are not retained any more.

    When there is nothing to read, Spark passes an empty partition of its own class.
    """
    if isinstance(partition, RowsPartition) and isinstance(layout, ChangeLayout):
        yield from _standing_rows(partition, layout)
    if isinstance(partition, LogPartition):
        columns = {name: COLUMNS[name] for name in layout.needed}
        yield from _decoded(_read(partition, columns), layout)
    spare_collections()


def _standing_rows(partition: RowsPartition, layout: ChangeLayout) -> Iterator[pa.RecordBatch]:
    """Give a table's rows of now as they stood at a tick: without those of which events of later tell."""
    table, decoder = partition.table, decoder_of(layout)
    with reading_rows(partition.access, table) as found:
        if not (found.is_as_described and decoder.has(table.key)):
            text = f"{table.name} was altered before its rows were read; begin the stream again."
            raise StorageError(text, sqlstate=None, transient=True)
        changed: set[str] = set()
        for query in partition.changes_until(found.snapshot):
            for batch in found.session.batches(query):
                changed.update(decoder.keys_in(batch, table.key))
        for batch in found.batches:
            given: Any = batch  # its stubs are partial
            named = dict(zip(table.columns, given.columns, strict=True))
            yield _without(decoder.shown(named, batch.num_rows, partition.since), changed, table.key)


def _without(batch: pa.RecordBatch, keys: set[str], key: Sequence[str]) -> pa.RecordBatch:
    if not keys:
        return batch
    return batch.filter(
        pa.array([found not in keys for found in keys_of(batch.column(AFTER), key)], pa.bool_())
    )


def _decoded(batches: Iterator[pa.RecordBatch], layout: RowLayout) -> Iterator[pa.RecordBatch]:
    """Give each batch the columns that Spark is given."""
    if isinstance(layout, ChangeLayout):
        return changes_decoded(batches, layout)
    return decoded(batches, layout) if isinstance(layout, Layout) and layout.has_typed else batches


def _read(partition: LogPartition, columns: dict[str, str]) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(columns)
    prepare = prepare_reading(
        by_block=partition.part is not None, statement_timeout=partition.statement_timeout
    )
    with arrow_session(partition.access, prepare) as session:
        _check(session, partition)
        for query in partition.queries(list(columns)):
            for batch in session.batches(query):
                yield conform(_completed(batch, partition, schema), schema)
        _check(session, partition)


def _completed(batch: pa.RecordBatch, partition: LogPartition, schema: pa.Schema) -> pa.RecordBatch:
    """Add the columns with one value for all events, which were not transferred."""
    given: Any = batch  # its stubs are partial
    types: dict[str, Any] = dict(zip(schema.names, schema.types, strict=True))
    arrays: dict[str, Any] = {name: pa.nulls(batch.num_rows, kind) for name, kind in types.items()}
    arrays |= zip(batch.schema.names, given.columns, strict=True)
    arrays["log"] = pa.repeat(pa.scalar(partition.span.log), batch.num_rows)
    if not partition.steps.breaks:
        arrays["tick_id"] = pa.repeat(pa.scalar(partition.steps.ticks[0], pa.int64()), batch.num_rows)
    return pa.RecordBatch.from_pydict(arrays)


def _check(session: ArrowSession, partition: LogPartition) -> None:
    """Raise DataLossError unless the tables' files are those of the plan."""
    for name, node in partition.tables:
        if session.value(find_table_node(name).query) != node:
            raise DataLossError(
                f"Table {name} of log {partition.span.log} was emptied or rewritten after the reading was planned: its "
                f"events from tick {partition.span.begin.tick} on are not all retained.",
                log=partition.span.log,
                consumer="",
                tick=partition.span.begin.tick,
                oldest=None,
            )
