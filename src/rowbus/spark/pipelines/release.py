"""Release of events that a checkpoint has made durable: moves the consumer up to the last committed batch.

Spark confirms a batch to its source when it plans the next one. So after a run, and in quiet times, the registration
is a batch behind. This moves it up: during a query (`ReleaseListener`), after it (`release_committed`), and without
Spark (`rowbus spark release`).

Invariants: only what the checkpoint says is committed is released, and a registration never moves backwards.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError, RowbusError
from rowbus.running.critical import Outage
from rowbus.spark.checkpoint import find_committed, positions, read_committed
from rowbus.spark.log_source.hold import LogHold, stranger
from rowbus.spark.log_source.offset import offsets_from_json

if TYPE_CHECKING:
    from collections.abc import Generator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from rowbus.errors import DataLossError
    from rowbus.spark.log_source.offset import Offsets

logger = logging.getLogger("rowbus.spark")

APPLICATION = "rowbus spark release"


def release_committed(checkpoint: str | Path, *, consumer: str, dsn: str | None = None) -> dict[str, int]:
    """Move a consumer of logs up to the newest committed batch of a checkpoint; return that batch's end, a tick by log.

    A registration that is there already, or further, or gone, stays. Safe at any time, also while the query runs.
    Raises ConfigurationError for a folder without a checkpoint, DataLossError for a log that is not the one that the
    checkpoint has read, StorageError.
    """
    committed = read_committed(checkpoint)
    if committed is None:
        return {}
    ends = positions(committed)
    if strange := _stranger(ends, consumer, dsn):
        raise strange
    ticks = {log: offset.at.tick for log, offset in ends.items()}
    release(ticks, consumer=consumer, dsn=dsn)
    return ticks


def put_stranger_aside(checkpoint: Path, consumer: str, dsn: str) -> Path | None:
    """Put a checkpoint aside that is of another history than its log, whose database was restored; return where it is.

    Only for what is written anew. None when there is no such checkpoint.
    """
    committed = find_committed(checkpoint)
    if committed is None or _stranger(positions(committed), consumer, dsn) is None:
        return None
    return checkpoint.rename(checkpoint.with_name(f"{checkpoint.name}.until-batch-{committed.batch}"))


def _stranger(ends: Offsets, consumer: str, dsn: str | None) -> DataLossError | None:
    """Return the error for the first position that is of another history than its log; None when there is none."""
    with Database(resolve_dsn(dsn), application_name=APPLICATION).session() as session:
        found = (stranger(session.run, log, offset.at, consumer) for log, offset in ends.items())
        return next((strange for strange in found if strange), None)


def release(ticks: dict[str, int], *, consumer: str, dsn: str | None = None) -> None:
    """Move a consumer up to durable ticks, never back."""
    with Database(resolve_dsn(dsn), application_name=APPLICATION).session() as session:
        for log, tick in sorted(ticks.items()):
            hold = LogHold(log, consumer)
            with session.transaction():
                session.run(hold.lock_hold())
                session.run(hold.move_up_hold(tick))


class ReleaseListener(StreamingQueryListener):
    """Releases the events of each batch as soon as Spark has committed it.

    `spark.streams.addListener(ReleaseListener("archive"))`. Follows queries of the given name, by default all. Not for
    Spark Connect, where listeners run in another process.
    """

    def __init__(self, consumer: str, dsn: str | None = None, *, query: str | None = None) -> None:
        """Take the consumer's name, its database, and the query's name. No I/O."""
        self._consumer = consumer
        self._dsn = dsn
        self._query = query
        self._outage = Outage(f"Releasing the events of {consumer}", logger)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - as above
        """Release events up to the end of the committed batch."""
        progress = event.progress
        if self._query is None or progress.name == self._query:
            self._release([source.endOffset for source in progress.sources])

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - as above
        """Do nothing: the last batch has released its events."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - as above
        """Do nothing."""

    def _release(self, ends: list[str | None]) -> None:
        """Release events up to these ends; after a failure the next batch does it."""
        try:
            for offsets in filter(None, map(_offsets, ends)):
                ticks = {log: at.at.tick for log, at in offsets.items()}
                release(ticks, consumer=self._consumer, dsn=self._dsn)
        except RowbusError as error:
            self._outage.failed(error)
        else:
            self._outage.succeeded()


@contextmanager
def releasing(spark: SparkSession, consumer: str, dsn: str | None, *, query: str) -> Generator[None]:
    """Release the events of a query's batches for as long as the block lasts."""
    listener = ReleaseListener(consumer, dsn, query=query)
    spark.streams.addListener(listener)
    try:
        yield
    finally:
        with suppress(Exception):  # where Spark's Java process has ended, that is to be told
            spark.streams.removeListener(listener)


def _offsets(end: Any) -> Offsets | None:  # noqa: ANN401 - what Spark says
    try:
        return offsets_from_json(end)
    except (ConfigurationError, ValueError, TypeError):
        return None  # an offset of another source
