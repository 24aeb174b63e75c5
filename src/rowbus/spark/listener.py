"""Spark's listener that tells an observer of the queries of a session.

Invariant: Spark calls it in the driver's program, one call at a time; a report that cannot be read harms no query.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from rowbus.running.telemetry import process
from rowbus.running.telemetry.series import MOST
from rowbus.spark.micro_batch import UNNAMED, micro_batch

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from rowbus.running.telemetry.instruments import Instruments
    from rowbus.running.telemetry.spans import Spans
    from rowbus.spark.micro_batch import MicroBatch, Report

logger = logging.getLogger("rowbus.spark")


@dataclass(eq=False)
class FailedQuery:
    """A query that ended with an error: an outage until a query of its name begins."""

    activity: str
    logger: logging.Logger = logger
    is_failing: bool = True


class Observer:
    """Is told what Spark reports, a call at a time."""

    def __init__(self, measured: Instruments | None, spans: Spans | None) -> None:
        """Take what to tell; None: nothing wants to know. No I/O."""
        self._measured = measured
        self._spans = spans
        self._running: dict[str, str] = {}
        self._failed: dict[str, FailedQuery] = {}

    def began(self, run: str, name: str | None) -> None:
        """Note that a run of a query began. To repeat that changes nothing."""
        if run in self._running:
            return
        query = self._running[run] = name or UNNAMED
        if failed := self._failed.pop(query, None):
            process.ended(failed)
        if self._measured is not None:
            self._measured.spark_queries.add((query,))

    def batch(self, report: Report) -> None:
        """Note a micro-batch that has ended, also of a query that began before."""
        batch = micro_batch(report)
        self.began(str(report.get("runId")), report.get("name"))
        if self._measured is not None:
            _measure(self._measured, batch)
        if self._spans is not None:
            _trace(self._spans, batch)

    def ended(self, run: str, error: str | None = None) -> None:
        """Note that a run ended, by a stop or by an error."""
        query = self._running.pop(run, None)
        if query is None:
            return
        if self._measured is not None:
            self._measured.spark_queries.add((query,), -1)
        if error is not None and len(self._failed) < MOST:
            self._failed[query] = FailedQuery(f"Spark query {query}")
            process.began(self._failed[query])

    def close(self) -> None:
        """Say no more of what runs and has failed."""
        for run in list(self._running):
            self.ended(run)
        for failed in self._failed.values():
            process.ended(failed)
        self._failed.clear()


def _measure(measured: Instruments, batch: MicroBatch) -> None:
    query = (batch.query,)
    measured.spark_rows.add(query, batch.rows)
    measured.spark_batch_rows.set(batch.rows, query)
    measured.spark_batch_seconds.observe(batch.seconds, query)
    if batch.behind is not None:
        measured.spark_lag_events.set(batch.behind.events, query)
        measured.spark_lag_seconds.set(batch.behind.seconds, query)


def _trace(spans: Spans, batch: MicroBatch) -> None:
    spans.past(
        "process",
        batch.place,
        {
            "messaging.batch.message_count": batch.rows,
            "rowbus.spark.query": batch.query,
            "rowbus.spark.batch": batch.number,
        },
        (batch.began, batch.ended),
        {"receive": (batch.began, batch.read), "settle": (batch.done, batch.ended)},
    )


class ObservingListener(StreamingQueryListener):
    """Passes on what Spark reports."""

    def __init__(self, observer: Observer) -> None:
        """Take the observer. No I/O."""
        self._observer = observer

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Tell that a query began."""
        self._observer.began(str(event.runId), event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - as above
        """Tell of a micro-batch."""
        try:
            self._observer.batch(json.loads(event.progress.json))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            logger.warning("Spark's report of a micro-batch cannot be read", exc_info=True)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - as above
        """Do nothing: the last batch told how far it is."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - as above
        """Tell that a query ended."""
        self._observer.ended(str(event.runId), event.exception)

    def close(self) -> None:
        """Forget the queries that failed."""
        self._observer.close()
