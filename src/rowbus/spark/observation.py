"""Measures and traces a session's streaming queries, and what this process tells of them.

Invariants: without an address and without a set-up of OpenTelemetry's, Spark is told nothing and nothing runs; labels
are the names of queries, of which `series` counts a bounded number; a query without a name is counted with the others
that have none.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from rowbus.running.telemetry.beside import Beside
from rowbus.running.telemetry.instruments import instruments, tracing
from rowbus.running.telemetry.listener import address_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rowbus.spark.listener import ObservingListener


class Observation:
    """The meter and tracer of a session's queries, until `stop` or the end of its block."""

    def __init__(self, spark: SparkSession, beside: Beside | None) -> None:
        """Begin to listen to Spark, if anything wants to know. See `observe`."""
        self._spark = spark
        self._beside = beside
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
        with ExitStack() as ending:
            if self._beside is not None:
                ending.callback(self._beside.stop)
            if listener is not None:
                ending.callback(listener.close)
                self._spark.streams.removeListener(listener)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop."""
        self.stop()

    def _listen(self) -> None:
        from rowbus.spark.listener import Observer, ObservingListener  # noqa: PLC0415 - imports Spark

        self._listener = ObservingListener(Observer(instruments(), tracing()))
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
