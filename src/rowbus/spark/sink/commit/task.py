"""A task's part of a batch: stage the rows, prepare them, or publish them at once; and the task that runs here.

Invariants: everything that one attempt writes is one transaction. It commits only into a stage, or where the guarantee
is "at least once". A failed attempt leaves nothing; a superfluous successful one leaves a stage or a prepared
transaction, which the batch's commit or the janitor removes. A batch write has no query and no batch number, even
inside `foreachBatch`, where Spark's properties are those of the surrounding stream: several writes may run there under
one batch number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from pyspark import TaskContext

from rowbus.database.postgresql.arrow_copy import Rows, copy_rows
from rowbus.database.statements import control
from rowbus.errors import ConfigurationError, StorageError
from rowbus.spark.sink.commit import batch as ledger
from rowbus.spark.sink.commit import batch as stage
from rowbus.spark.sink.commit import prepared_transactions
from rowbus.spark.sink.commit.batch import NONE, PREPARED, STAGED, Part, Task, gid, stage_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from rowbus.database.postgresql.connection import Session
    from rowbus.database.statements import Query
    from rowbus.spark.sink.commit.batch import BatchKey

LOCK_WAIT = "60s"
"""The time that a transaction that will be prepared waits for a lock."""


class Target(Protocol):
    """A target of rows, one class for each value of the option `deliver`; picklable, without connections."""

    name: str
    """The target's name in the ledger: a batch is published once into each target."""

    def staged(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, /) -> Rows:
        """Return the rows in the shape of a stage. Raises ConfigurationError for unknown columns."""
        ...

    def direct(
        self, session: Session, batches: Iterator[pa.RecordBatch], schema: pa.Schema, /
    ) -> tuple[Query, Rows] | None:
        """Return the COPY straight into the target, with its rows; None if they must be staged first."""
        ...

    def publish(self, session: Session, parts: Sequence[Part], key: BatchKey, /) -> frozenset[str]:
        """Move the rows of all stages into the target, in the session's transaction; return the receivers to notify."""
        ...

    def announce(self, session: Session, told: frozenset[str], /) -> None:
        """Notify receivers, in the transaction that publishes the rows or after it."""
        ...


class TaskAttempt(NamedTuple):
    """One attempt of one task: its target, its batch, and its number among the writer's attempts."""

    target: Target
    key: BatchKey
    writer: str
    task: Task

    def part(self, guarantee: str, place: str, rows: Rows, told: frozenset[str] = frozenset()) -> Part:
        """Describe the part that was written."""
        return Part(
            guarantee,
            self.task.partition,
            place,
            rows.count,
            self.task.query_id,
            tuple(rows.names),
            tuple(rows.types),
            told,
        )


def stage_rows(
    session: Session, attempt: TaskAttempt, batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> Part:
    """Copy the rows into a new stage, to be published with the batch."""
    rows = attempt.target.staged(batches, schema)
    name = stage_name(attempt.writer, attempt.task)
    with session.transaction():
        session.run(stage.set_lazy())
        _fill(session, attempt, name, rows)
    return attempt.part(STAGED, name, rows)


def prepare_rows(
    session: Session, attempt: TaskAttempt, batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> Part:
    """Publish the rows in a transaction that ends prepared, to be committed with the batch.

    First ends the prepared transactions of earlier runs of the batch, which may lock the same rows.
    """
    if not session.run(prepared_transactions.find_limit()):
        raise ConfigurationError(
            "exactlyOnce=prepared needs prepared transactions, and the server allows none: set "
            "max_prepared_transactions to at least twice the number of tasks that run at once, or choose "
            "exactlyOnce=staged."
        )
    prepared_transactions.clear_way(session, attempt.key, attempt.writer)
    name = gid(attempt.key, attempt.writer, attempt.task)
    session.run(control(b"begin", "Failed to begin"))
    session.run(prepared_transactions.limit_lock_wait(LOCK_WAIT))
    session.run(prepared_transactions.mark_part(name))
    try:
        rows, told = _publish_now(session, attempt, batches, schema)
    except StorageError as error:
        raise _explained(error) from error
    session.run(prepared_transactions.prepare(name))
    return attempt.part(PREPARED, name, rows, told)


def _explained(error: StorageError) -> StorageError:
    if error.sqlstate != prepared_transactions.TIMED_OUT:
        return error
    return StorageError(
        f"{error}. With exactlyOnce=prepared, two tasks of a batch that write the same unique key wait for each other; "
        f"with staged the second write fails at once.",
        sqlstate=error.sqlstate,
        transient=True,
    )


def publish_rows(
    session: Session, attempt: TaskAttempt, batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> Part:
    """Publish the rows at once; a repeated task publishes them again."""
    prepared_transactions.clear_way(session, attempt.key)
    with session.transaction():
        session.run(ledger.set_durable())
        rows, told = _publish_now(session, attempt, batches, schema)
        attempt.target.announce(session, told)
    return attempt.part(NONE, "", rows, told)


def skip_rows(attempt: TaskAttempt, guarantee: str, batches: Iterator[pa.RecordBatch]) -> Part:
    """Skip the rows of a batch that is published already, and that Spark repeats because it does not know.

    Writing them into a table with a unique key would fail every time.
    """
    rows = sum(batch.num_rows for batch in batches)  # reads all: Spark has more to send
    return Part(guarantee, attempt.task.partition, "", rows, attempt.task.query_id)


def _publish_now(
    session: Session, attempt: TaskAttempt, batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> tuple[Rows, frozenset[str]]:
    """Copy straight into the target if possible, else through a stage of this transaction only."""
    if (direct := attempt.target.direct(session, batches, schema)) is not None:
        query, rows = direct
        copy_rows(session, query, rows)
        return rows, frozenset({attempt.target.name})
    name = stage_name(attempt.writer, attempt.task)
    rows = attempt.target.staged(batches, schema)
    _fill(session, attempt, name, rows)
    told = attempt.target.publish(session, [attempt.part(NONE, name, rows)], attempt.key)
    session.run(stage.drop_stages([name]))
    return rows, told


def _fill(session: Session, attempt: TaskAttempt, name: str, rows: Rows) -> None:
    session.run(stage.create_stage(name, rows.types, attempt.key))
    copy_rows(session, stage.copy_stage(name), rows)


_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"


def current_task() -> Task:
    """Return the task attempt of a batch write."""
    context = _context()
    return Task(context.partitionId(), context.taskAttemptId())


def current_stream_task() -> Task:
    """Return the task attempt of a micro-batch."""
    context = _context()
    query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
    if not query or batch is None:
        raise ConfigurationError(
            "A stream's writer runs outside any stream; this Spark does not say which batch."
        )
    return Task(context.partitionId(), context.taskAttemptId(), query, int(batch))


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise ConfigurationError("A writer's `write` runs outside any task of Spark's.")
    return context
