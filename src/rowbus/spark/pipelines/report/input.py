"""The sources of a message-flow report: queues, logs, and archives of logs.

Invariant: reading takes no message and moves no consumer: queues are peeked at, logs are read as a batch.
"""

from __future__ import annotations

import json
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError, QueueNotFoundError
from rowbus.log import catalog as log_catalog
from rowbus.log.log import Log
from rowbus.log.range import LogRange
from rowbus.messages.address import QueueAddress
from rowbus.spark.log_source.snapshot_range import EVENT_COLUMNS
from rowbus.spark.pipelines.event_replay import read_archive
from rowbus.spark.pipelines.report.facts import archived_messages, queued_messages
from rowbus.transport.queues.postgresql import QueueTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from pyspark.sql import SparkSession

    from rowbus.database.postgresql.connection import Session
    from rowbus.log.diagnosis import ConsumerState, LogState

MARGIN: Final = timedelta(hours=1)  # by which a machine's clock may be ahead of the database's
COLUMNS: Final = ("log", *EVENT_COLUMNS)


class Sources(NamedTuple):
    """The sources of a report, as a user gave them."""

    queues: Sequence[QueueAddress] = ()
    archives: Sequence[Path | str] = ()
    logs: Sequence[str] = ()

    def described(self) -> list[str]:
        """Say in words what is read."""
        return [
            *(f"queue {queue}" for queue in self.queues),
            *(f"log {log}" for log in self.logs),
            *(f"archive {archive}" for archive in self.archives),
        ]


def sources(
    queues: Iterable[str], archives: Iterable[Path | str], logs: Iterable[str], schema: str
) -> Sources:
    """Read names as people mean them; raises InvalidAddressError, and ConfigurationError when there are none."""
    addresses = [QueueAddress.from_user(queue, schema) for queue in queues]
    for address in addresses:
        address.validate()
    found = Sources(addresses, list(archives), list(logs))
    if not any(found):
        raise ConfigurationError("Nothing to report on: give a queue, a log or an archive.")
    return found


class Inputs:
    """The messages and events of some sources."""

    def __init__(
        self, spark: SparkSession, of: Sources, dsn: str | None, since: datetime | None = None
    ) -> None:
        """Say what to read: of logs no more than needed for what happened `since`.

        No I/O, except that the embedded server is started if a queue or log is to be read from it.
        """
        self._spark = spark
        self._since = since
        self._starts: dict[str, int | None] = {}
        self._of = of
        self._dsn = resolve_dsn(dsn) if of.queues or of.logs else dsn

    def check(self) -> None:
        """Find where to begin; raises QueueNotFoundError, LogNotFoundError, StorageError."""
        if not (self._of.queues or self._of.logs):
            return
        with self._session() as session:
            for queue in self._of.queues:
                if not session.run(QueueTable(queue).exists()):
                    raise QueueNotFoundError(f"There is no queue {queue}.", queue=str(queue))
            for log in self._of.logs:
                session.run(LogRange(log).find())
                self._starts[log] = self._find_start(session, log)

    def events(self) -> DataFrame | None:
        """Return all events of logs and archives; None when there are none of either."""
        frames = [*map(self._log, self._of.logs), *map(self._archive, self._of.archives)]
        return _union([bodiless(frame) for frame in frames])

    def messages(self, events: DataFrame | None) -> DataFrame | None:
        """Return the messages of queues and among events."""
        queued = [queued_messages(self._queue(queue)) for queue in self._of.queues]
        return _union(queued if events is None else [*queued, archived_messages(events)])

    def log_states(self) -> tuple[list[LogState], list[ConsumerState]]:
        """Return the states of the logs and of their consumers. Raises StorageError."""
        if not self._of.logs:
            return [], []
        with self._session() as session:
            logs = [state for log in self._of.logs for state in session.run(log_catalog.log_states(log))]
            consumers = [
                state for log in self._of.logs for state in session.run(log_catalog.consumer_states(log))
            ]
        return logs, consumers

    def ticks(self) -> DataFrame | None:
        """Return when the retained ticks of logs were made: `log`, `tick_id`, `ticked`. Raises LogNotFoundError."""
        ticks = [(log, tick.id, tick.time) for log in self._of.logs for tick in Log(self._dsn, log).ticks()]
        return (
            self._spark.createDataFrame(ticks, "log string, tick_id long, ticked timestamp")
            if ticks
            else None
        )

    def _find_start(self, session: Session, log: str) -> int | None:
        """Find a tick before which nothing is of interest; None if all that is retained may be."""
        return None if self._since is None else session.run(LogRange(log).tick_at(self._since - MARGIN))

    def _session(self) -> AbstractContextManager[Session]:
        return Database(self._dsn or "", application_name="rowbus report").session()

    def _queue(self, queue: QueueAddress) -> DataFrame:
        rows = self._rowbus(queue=str(queue), mode="peek", columns="id,headers_text")
        return rows.select(F.lit(str(queue)).alias("queue"), "id", F.col("headers_text").alias("headers"))

    def _log(self, log: str) -> DataFrame:
        start = {log: {"tick": self._starts[log]}} if self._starts.get(log) else None
        return self._rowbus(log=log, startingOffsets=json.dumps(start) if start else "earliest")

    def _archive(self, path: Path | str) -> DataFrame:
        events = read_archive(self._spark, path, "delta" if Path(path, "_delta_log").is_dir() else "parquet")
        missing = [column for column in COLUMNS if column not in events.columns]
        if missing:
            raise ConfigurationError(
                f"{path} is no archive of a log, it has no column {missing[0]}; `rowbus spark archive` makes one."
            )
        return events

    def _rowbus(self, **options: str) -> DataFrame:
        return self._spark.read.format("rowbus").options(dsn=self._dsn or "", **options).load()


def bodiless(events: DataFrame) -> DataFrame:
    """Return events with the size of their data in its place: the report reads no bodies, and keeps none."""
    size = F.coalesce(F.octet_length("ev_data"), F.lit(0)).alias("bytes")
    log = F.col("log").cast("string").alias("log")  # the partitions of an archive may look like numbers
    kept = {"ev_data": size, "log": log}
    return events.select(*(kept.get(column, F.col(column)) for column in COLUMNS))


def _union(frames: Sequence[DataFrame]) -> DataFrame | None:
    return reduce(DataFrame.unionByName, frames) if frames else None
