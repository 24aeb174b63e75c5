"""Writers: `df.write` and `df.writeStream` with `.format("rowbus")`.

Spark makes a new writer for each micro-batch, copies it into the tasks, and makes another one to commit. So everything
that `commit` needs is in the options, the batch's number and the parts that tasks return.

Invariants: `write` runs on an executor and ends only its own transaction; `commit` and `abort` run beside the driver,
on another object, and may run again for a batch that was committed. These options decide the identity of a sink
(`SinkId`), and so whether a batch counts as published. They must not depend on anything that may differ when the same
batch is written again.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError, PermissionDeniedError, RowbusError, StorageError
from rowbus.spark.datasource import one_sentence, spare_collections
from rowbus.spark.options import REQUIRED, Option, choice, integer, parse_options, text
from rowbus.spark.schema import ensure
from rowbus.spark.sink.commit import batch_commit
from rowbus.spark.sink.commit.batch import NONE, PREPARED, STAGED, Part, SinkId, Task, new_writer, query_id_of
from rowbus.spark.sink.commit.batch_commit import KEEP
from rowbus.spark.sink.commit.task import (
    TaskAttempt,
    current_stream_task,
    current_task,
    prepare_rows,
    publish_rows,
    skip_rows,
    stage_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from rowbus.database.postgresql.connection import Session
    from rowbus.spark.sink.commit.task import Target

TARGETS = {
    "log": "rowbus.spark.sink.targets.log",
    "queue": "rowbus.spark.sink.targets.queue",
    "table": "rowbus.spark.sink.targets.table",
    "upsert": "rowbus.spark.sink.targets.upsert",
    "deadletter": "rowbus.spark.sink.targets.dead_letter",
    "changes": "rowbus.spark.sink.targets.changes",
}
"""The module of each value of `deliver`; it has `OPTIONS`, and `make` returns the `Target`."""

SINK = (
    Option("deliver", choice(*TARGETS), REQUIRED, "Where rows go."),
    Option(
        "rowSchema", text, None, "The columns of a table made in SQL, as `id bigint, total decimal(10,2)`."
    ),
    Option("dsn", text, None, "The database; without, that of ROWBUS_DATABASE, else the embedded server."),
    Option(
        "exactlyOnce",
        choice(STAGED, PREPARED, NONE),
        STAGED,
        "`staged`: rows wait in unlogged tables, and one transaction publishes the batch. `prepared`: each task "
        "leaves a prepared transaction, and these commit one by one. `none`: each task publishes at once; rows may "
        "come again.",
    ),
    Option(
        "txnAppId",
        text,
        None,
        "The sink's name in the ledger, instead of its checkpoint's. With txnVersion a batch write is idempotent.",
    ),
    Option("txnVersion", integer(0), None, "The number of this batch write among those of its txnAppId."),
    Option(
        "ledgerBatches", integer(200), KEEP, "How many batches the ledger keeps; older ones go after a week."
    ),
)
"""The options of every target."""


def stream_identity(options: Mapping[str, Any], given: Mapping[str, str]) -> SinkId:
    """Return the identity of a streaming sink. Raises ConfigurationError for the version of a batch write."""
    if options["txnVersion"] is not None:
        raise ConfigurationError(
            "Option 'txnVersion' is for batch writes; a stream's versions are the numbers of its batches.",
            option="txnVersion",
        )
    checkpoint = {name.lower(): value for name, value in given.items()}.get("checkpointlocation")
    return SinkId(named=options["txnAppId"], checkpoint=checkpoint)


def batch_identity(options: Mapping[str, Any], writer: str) -> SinkId:
    """Return the identity of a batch write: the one the user gave, or a random one. Raises ConfigurationError."""
    if (options["txnAppId"] is None) != (options["txnVersion"] is None):
        missing = "txnVersion" if options["txnVersion"] is None else "txnAppId"
        raise ConfigurationError(
            f"A batch write is idempotent by both txnAppId and txnVersion: {missing!r} is missing.",
            option=missing,
        )
    named = options["txnAppId"]
    if named is not None and options["exactlyOnce"] == NONE:
        raise ConfigurationError(
            "With exactlyOnce=none nothing is kept in the ledger; leave out txnAppId and txnVersion, or choose staged.",
            option="exactlyOnce",
        )
    return SinkId(run=writer) if named is None else SinkId(named=named)


_WRITE = {STAGED: stage_rows, PREPARED: prepare_rows, NONE: publish_rows}


@dataclass
class PartMessage(WriterCommitMessage):
    """A task's part, on its way to the driver."""

    part: Part


@dataclass(frozen=True)
class Sink:
    """The settings of a writer; pickled into the tasks."""

    dsn: str
    target: Target
    identity: SinkId
    guarantee: str
    keep: int | None
    """The number of batches that the ledger keeps; None for a batch write."""

    writer: str
    version: int = 0
    """The number of a batch write; a stream's come from Spark."""

    task: Callable[[], Task] = current_task

    def write(self, batches: Iterator[pa.RecordBatch]) -> PartMessage:
        """Write a task's part; a task without rows does not connect."""
        task = self.task()
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return PartMessage(Part(self.guarantee, task.partition, "", 0, task.query_id))
        number = self.version if task.batch_id is None else task.batch_id
        key = self.identity.key(self.target.name, task.query_id, number)
        if key is None:
            raise ConfigurationError(
                "This task belongs to no query and names no sink; give the option txnAppId."
            )
        attempt = TaskAttempt(self.target, key, self.writer, task)
        with Database(self.dsn, application_name="rowbus spark sink").session() as session:
            ensure(session)
            part = self._part(session, attempt, chain([first], batches), first.schema)
        spare_collections()
        return PartMessage(part)

    def _part(
        self,
        session: Session,
        attempt: TaskAttempt,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
    ) -> Part:
        if self.guarantee != NONE and batch_commit.is_done(session, attempt.key, attempt.task.query_id):
            return skip_rows(attempt, self.guarantee, batches)
        return _WRITE[self.guarantee](session, attempt, batches, schema)

    def commit(self, messages: Sequence[WriterCommitMessage | None], number: int) -> None:
        """Publish the tasks' parts, unless that was done."""
        parts = _parts(messages)
        if len(parts) != len(messages):
            raise StorageError("Spark lost the answer of a task.", sqlstate=None, transient=True)
        key = self.identity.key(self.target.name, query_id_of(parts), number)
        nameless = not parts and self.identity.named is not None  # no part says which query wrote it
        if key is None or nameless or self.guarantee == NONE:
            return
        allowing = (
            () if any(part.rows for part in parts) else (PermissionDeniedError,)
        )  # nothing is to be written
        with (
            suppress(*allowing),
            Database(self.dsn, application_name="rowbus spark commit").session() as session,
        ):
            ensure(session)
            batch_commit.commit(session, self.target, key, self.guarantee, parts, keep=self.keep)

    def abort(self, messages: Sequence[WriterCommitMessage | None], number: int) -> None:
        """Remove the tasks' parts, unless they were published."""
        parts = _parts(messages)
        if not any(part.place for part in parts):
            return
        key = self.identity.key(self.target.name, query_id_of(parts), number)
        with Database(self.dsn, application_name="rowbus spark abort").session() as session:
            batch_commit.abort(session, key, parts)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream."""

    def __init__(self, sink: Sink) -> None:
        """Take the settings. No I/O."""
        self.sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]  # as Spark has it
        """Write one task's part of a micro-batch."""
        return self.sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish a micro-batch, unless it was published before."""
        try:
            self.sink.commit(messages, batchId)
        except RowbusError:
            with one_sentence():
                raise

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Remove the parts of a failed micro-batch."""
        self.sink.abort(messages, batchId)


class BatchWriter(DataSourceArrowWriter):
    """Writes one data frame."""

    def __init__(self, sink: Sink) -> None:
        """Take the settings. No I/O."""
        self.sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]  # as Spark has it
        """Write one task's part."""
        return self.sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the rows."""
        try:
            self.sink.commit(messages, self.sink.version)
        except RowbusError:
            with one_sentence():
                raise

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the parts of a failed write."""
        self.sink.abort(messages, self.sink.version)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: FBT001 - Spark's
    """Return the writer of a micro-batch. `overwrite` is output mode `complete`. Raises ConfigurationError."""
    module, values = _parsed(options)
    identity = stream_identity(values, options)
    sink = _sink(module, values, schema, identity, overwrite=overwrite, writer=new_writer())
    return StreamWriter(replace(sink, task=current_stream_task))


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:  # noqa: FBT001 - Spark's
    """Return the writer of a data frame. Raises ConfigurationError."""
    module, values = _parsed(options)
    writer = new_writer()
    identity = batch_identity(values, writer)
    sink = _sink(module, values, schema, identity, overwrite=overwrite, writer=writer)
    return BatchWriter(replace(sink, keep=None))


def _parsed(given: Mapping[str, str]) -> tuple[ModuleType, dict[str, Any]]:
    deliver = {name.lower(): value for name, value in given.items()}.get("deliver", "").lower()
    module = import_module(TARGETS[deliver]) if deliver in TARGETS else None
    own = () if module is None else module.OPTIONS
    values = parse_options(given, (*SINK, *own), of=f"the sink (deliver={deliver})")
    if module is None:  # not reached: `deliver` is required, and one of those
        raise ConfigurationError("Option 'deliver' is missing.", option="deliver")
    return module, values


def _sink(
    module: ModuleType,
    values: Mapping[str, Any],
    schema: StructType,
    identity: SinkId,
    *,
    overwrite: bool,
    writer: str,
) -> Sink:
    for field in schema:
        if re.search(r"\binterval (year|month)", field.dataType.simpleString()):
            raise ConfigurationError(
                f"The column {field.name!r} has intervals of months, which Spark cannot hand to Python: cast it to "
                "string, or to int for its months."
            )
    target: Target = module.make(values, tuple(schema.names), overwrite=overwrite)
    return Sink(
        resolve_dsn(values["dsn"]),
        target,
        identity,
        values["exactlyOnce"],
        values["ledgerBatches"],
        writer,
        values["txnVersion"] or 0,
    )


def _parts(messages: Sequence[WriterCommitMessage | None]) -> list[Part]:
    return [message.part for message in messages if isinstance(message, PartMessage)]
