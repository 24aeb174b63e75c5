"""What a task of a batch does with its rows: stage them, prepare them, or publish them at once.

Invariant: all that one attempt writes is one transaction, which is committed only for a stage or where nothing more was
promised than "at least once". A failed attempt leaves nothing; one that succeeds and loses against another leaves a
stage or a prepared transaction, which the batch's commit or the janitor removes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from rowbus.database.postgresql.arrow_copy import Rows, copy_rows
from rowbus.database.statements import control
from rowbus.errors import ConfigurationError, StorageError
from rowbus.spark.sink.commit import ledger, prepared_transactions, resolution, stage
from rowbus.spark.sink.commit.batch import NONE, PREPARED, STAGED, Part, gid, stage_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from rowbus.database.postgresql.connection import Session
    from rowbus.database.statements import Query
    from rowbus.spark.sink.commit.batch import BatchKey, Task


LOCK_WAIT = "60s"
"""How long a task that will be prepared waits for a lock."""


class Target(Protocol):
    """Where rows go: one object for each value of the option `deliver`; picklable, and without connections."""

    name: str
    """What the ledger calls the target: a batch is published once into each."""

    def staged(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, /) -> Rows:
        """Return the rows as they wait in a stage. Raises ConfigurationError for columns that have no place."""
        ...

    def direct(
        self, session: Session, batches: Iterator[pa.RecordBatch], schema: pa.Schema, /
    ) -> tuple[Query, Rows] | None:
        """Return how the rows can be copied straight into the target; None if they must be staged first."""
        ...

    def publish(self, session: Session, parts: Sequence[Part], key: BatchKey, /) -> frozenset[str]:
        """Move the rows of all stages into the target, in the session's transaction; return who is to be told."""
        ...

    def announce(self, session: Session, told: frozenset[str], /) -> None:
        """Tell those who wait for rows; runs in the transaction that publishes them, or after it."""
        ...


class TaskAttempt(NamedTuple):
    """One attempt of one task: where its rows go, for which batch, and as which of the writer's attempts."""

    target: Target
    key: BatchKey
    writer: str
    task: Task

    def part(self, guarantee: str, place: str, rows: Rows, told: frozenset[str] = frozenset()) -> Part:
        """Describe what was made."""
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
    """Copy the rows into a stage of the attempt's own, to be published with the batch."""
    rows = attempt.target.staged(batches, schema)
    name = stage_name(attempt.writer, attempt.task)
    with session.transaction():
        session.run(stage.set_lazy())
        _fill(session, attempt, name, rows)
    return attempt.part(STAGED, name, rows)


def prepare_rows(
    session: Session, attempt: TaskAttempt, batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> Part:
    """Publish the rows in a transaction that is left prepared, to be committed with the batch.

    Ends first what earlier runs of the same batch left prepared, whose locks the rows may need.
    """
    if not session.run(prepared_transactions.find_limit()):
        raise ConfigurationError(
            "exactlyOnce=prepared needs prepared transactions, and the server allows none: set "
            "max_prepared_transactions to at least twice the number of tasks that run at once, or choose "
            "exactlyOnce=staged."
        )
    resolution.clear_way(session, attempt.key, attempt.writer)
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
        f"with staged they would be told.",
        sqlstate=error.sqlstate,
        transient=True,
    )


def publish_rows(
    session: Session, attempt: TaskAttempt, batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> Part:
    """Publish the rows at once: they are there, once more, if Spark repeats the task."""
    resolution.clear_way(session, attempt.key)
    with session.transaction():
        session.run(ledger.set_durable())
        rows, told = _publish_now(session, attempt, batches, schema)
        attempt.target.announce(session, told)
    return attempt.part(NONE, "", rows, told)


def skip_rows(attempt: TaskAttempt, guarantee: str, batches: Iterator[pa.RecordBatch]) -> Part:
    """Pass over the rows of a batch that is published already: Spark repeats it, not knowing.

    Writing them would be in vain at best; straight into a table with a unique key it would fail for ever.
    """
    rows = sum(batch.num_rows for batch in batches)  # to the end: Spark has more to send
    return Part(guarantee, attempt.task.partition, "", rows, attempt.task.query_id)


def _publish_now(
    session: Session, attempt: TaskAttempt, batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> tuple[Rows, frozenset[str]]:
    """Copy straight into the target if that is possible, else through a stage that lives in this transaction only."""
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
