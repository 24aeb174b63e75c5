"""Measures and traces a session's streaming queries, and what this process tells of them.

Invariants: without an address and without a set-up of OpenTelemetry's, Spark is told nothing and nothing runs; labels
are the names of queries, of which `series` counts a bounded number; a query without a name is counted with the others
that have none.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from rowbus.running.telemetry import process
from rowbus.running.telemetry.beside import Beside
from rowbus.running.telemetry.instruments import instruments
from rowbus.running.telemetry.listener import address_of
from rowbus.running.telemetry.series import MOST
from rowbus.running.telemetry.tracing import tracing
from rowbus.spark.micro_batch import UNNAMED, micro_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rowbus.running.telemetry.instruments import Instruments
    from rowbus.running.telemetry.spans import Spans
    from rowbus.spark.listener import ObservingListener
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


class Observation:
    """What measures and traces a session's queries, until `stop` or the end of its block."""

    def __init__(self, spark: SparkSession, beside: Beside | None) -> None:
        """Begin to listen to Spark, if anything wants to know. See `observe`."""
        self._spark = spark
        self._beside = beside
        self._observer = Observer(instruments(), tracing())
        self._listener: ObservingListener | None = None
        if instruments() is not None or tracing() is not None:
            self._listen()

    @property
    def url(self) -> str | None:
        """Where Prometheus finds the measurements; None: nowhere."""
        return None if self._beside is None else self._beside.url

    @property
    def listens(self) -> bool:
        """Whether Spark tells it of queries: something wants to know."""
        return self._listener is not None

    def stop(self) -> None:
        """Listen to Spark no more, and stop serving. To repeat that does nothing."""
        listener, self._listener = self._listener, None
        try:
            if listener is not None:
                self._spark.streams.removeListener(listener)
        finally:
            self._observer.close()
            if self._beside is not None:
                self._beside.stop()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop."""
        self.stop()

    def _listen(self) -> None:
        from rowbus.spark.listener import ObservingListener  # noqa: PLC0415 - imports Spark

        self._listener = ObservingListener(self._observer)
        self._spark.streams.addListener(self._listener)


def observe(spark: SparkSession, *, metrics: str | None = None) -> Observation:
    """Measure and trace the streaming queries of a session, each micro-batch, from now until the answer's `stop`.

    `metrics` is where to serve `/metrics`, `/livez` and `/readyz`, `127.0.0.1:9464`, from a thread. Where the program
    has set up OpenTelemetry before, its SDK is told the same and gets three spans a micro-batch. Call it once for a
    session. Sources and sinks are any, lag is known of logs. Raises ConfigurationError for an address that cannot be
    listened on.
    """
    beside = None
    if metrics is not None:
        beside = Beside(address_of(metrics))
        beside.start()
    return Observation(spark, beside)
