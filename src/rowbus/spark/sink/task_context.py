"""The task that runs in this process: the only place where the sink asks Spark.

Invariant: a batch write has no query and no batch number, even inside `foreachBatch`, where Spark's properties are
those of the surrounding stream: several writes may run there under one batch number.
"""

from __future__ import annotations

from pyspark import TaskContext

from rowbus.errors import ConfigurationError
from rowbus.spark.sink.commit.batch import Task

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
