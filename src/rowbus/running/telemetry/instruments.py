"""Instruments of a process of Rowbus: what it measures and whether it traces.

A service asks `instruments()` when it starts, and holds what it gets. None: measuring is off, and the service
runs without the code that would make them.

A process traces when its program has set OpenTelemetry up. Nothing of OpenTelemetry is imported here before the
program has imported it. So a process without it pays for a look into a dictionary, and any set-up is honoured: the
program's own, or `opentelemetry-instrument`.

Invariants: labels are names from configuration, or message types, which `series` bounds; never an id; without an SDK no
span is made.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

from rowbus.running.telemetry.series import LONG_SECONDS, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from rowbus.running.telemetry.series import Family
    from rowbus.running.telemetry.spans import Spans


_METRICS_API: Final = "opentelemetry.metrics"
_TRACE_API: Final = "opentelemetry.trace"

_current: Instruments | None = None
_is_bridged = False
_spans: Spans | None = None


class Instruments:
    """The families of one process."""

    def __init__(self) -> None:
        """Begin with nothing measured."""
        self._make_endpoints()
        self._make_services()
        self._make_consumers()
        self._make_spark()

    def _make_endpoints(self) -> None:
        message = ("endpoint", "type")
        self.handled = Counter("rowbus_messages_handled", "Messages handled.", message)
        self.failed = Counter(
            "rowbus_attempts_failed", "Attempts at handling a message that failed.", message
        )
        self.retried = Counter(
            "rowbus_messages_retried", "Retries, immediate and delayed.", (*message, "kind")
        )
        self.given_up = Counter(
            "rowbus_messages_given_up", "Messages moved to an error queue, or discarded.", message
        )
        self.sent = Counter("rowbus_messages_sent", "Messages composed to be sent or published.", message)
        self.processing = Histogram(
            "rowbus_processing_seconds", "How long the handlers of a message took.", message
        )
        self.failing = Histogram(
            "rowbus_failed_attempt_seconds",
            "How long attempts took that failed, by the type of the error.",
            (*message, "error"),
        )
        self.critical = Histogram(
            "rowbus_critical_time_seconds",
            "From when a message was sent, or was due, to the end of its handling.",
            message,
            bounds=LONG_SECONDS,
        )
        self.in_hand = Gauge("rowbus_messages_in_hand", "Messages whose handlers run.", ("endpoint",))
        self.longest_in_hand = Gauge(
            "rowbus_longest_in_hand_seconds",
            "For how long the handler has run that has run for longest; 0: none for longer than a moment.",
            ("endpoint",),
        )

    def _make_services(self) -> None:
        self.outages = Counter("rowbus_outages", "Outages that began.", ("activity",))
        self.pool_waits = Counter("rowbus_pool_waits", "Times a connection for sends was waited for.")
        self.pool_wait_seconds = Counter("rowbus_pool_wait_seconds", "How long it was waited for.")
        self.leading = Gauge("rowbus_leading", "Whether this process leads, of those that may.", ("service",))
        self.ticks = Counter("rowbus_ticks", "Ticks made.", ("log",))
        self.tick_failures = Counter("rowbus_tick_failures", "Ticks that failed.", ("log",))
        self.looks = Histogram(
            "rowbus_ticker_look_seconds", "How long a look at all logs took, with its ticks."
        )
        self.moved = Counter("rowbus_delayed_moved", "Delayed messages moved to their queues.", ("table",))
        self.overdue = Gauge(
            "rowbus_delayed_overdue_seconds",
            "How long the next delayed message is overdue, as its mover saw it last; 0: it is not.",
            ("table",),
        )

    def _make_consumers(self) -> None:
        consumer = ("log", "consumer", "lane")
        self.batches = Counter("rowbus_consumer_batches", "Batches finished.", consumer)
        self.events = Counter("rowbus_consumer_events", "Events handled.", consumer)
        self.events_failed = Counter(
            "rowbus_consumer_events_failed",
            "Events that failed, by what becomes of them.",
            (*consumer, "verdict"),
        )
        self.batch_seconds = Histogram(
            "rowbus_consumer_batch_seconds", "How long a batch was in hand.", consumer, bounds=LONG_SECONDS
        )
        self.consumer_lag = Gauge(
            "rowbus_consumer_batch_lag_seconds",
            "How old the end of the batch was when it was taken.",
            consumer,
        )

    def _make_spark(self) -> None:
        query = ("query",)
        self.spark_queries = Gauge("rowbus_spark_queries", "Streaming queries that run.", query)
        self.spark_rows = Counter("rowbus_spark_rows", "Rows read by micro-batches that ended.", query)
        self.spark_batch_rows = Gauge("rowbus_spark_batch_rows", "Rows of the last micro-batch.", query)
        self.spark_batch_seconds = Histogram(
            "rowbus_spark_batch_seconds", "How long a micro-batch took.", query, bounds=LONG_SECONDS
        )
        self.spark_lag_events = Gauge(
            "rowbus_spark_lag_events",
            "About how many events were ahead of the last micro-batch when it ended.",
            query,
        )
        self.spark_lag_seconds = Gauge(
            "rowbus_spark_lag_seconds",
            "By how much the newest tick was later than the end of the last micro-batch.",
            query,
        )

    def families(self) -> list[Family]:
        """Return all families, in their order."""
        return [value for value in vars(self).values() if isinstance(value, (Gauge, Histogram))]


def turn_on() -> Instruments:
    """Measure from now on, in what starts from now on; harmless when repeated."""
    global _current  # noqa: PLW0603 - a process has one set of measurements
    _current = _current or Instruments()
    return _current


def instruments() -> Instruments | None:
    """Return what to measure with; None: it is off, there being neither Prometheus nor a set-up of OpenTelemetry's."""
    if not _is_bridged and _METRICS_API in sys.modules:
        _look()
    return _current


def _look() -> None:
    """Tell the program's set-up of OpenTelemetry's metrics, if it has one; the API's provider only stands in."""
    api = sys.modules[_METRICS_API]
    find = getattr(api, "get_meter_provider", None)  # none while the module is being imported
    provider = None if find is None else find()
    if provider is not None and not type(provider).__module__.startswith(_METRICS_API):
        bridge(provider)


def bridge(provider: object) -> None:
    """Tell a provider of OpenTelemetry's what is measured from now on."""
    global _is_bridged  # noqa: PLW0603 - as above
    _is_bridged = True
    import_module("rowbus.running.telemetry.meters").bridge(provider, turn_on().families())


def turn_off() -> None:
    """Forget what was measured; for tests."""
    global _current, _is_bridged
    _current, _is_bridged = None, False


def tracing() -> Spans | None:
    """Return what makes spans; None: tracing is off."""
    if _spans is None and _TRACE_API in sys.modules:
        return _look_for_spans()
    return _spans


def _look_for_spans() -> Spans | None:
    """Take the program's set-up, if it has one; the API's own providers only stand in for one."""
    api = sys.modules[_TRACE_API]
    find = getattr(api, "get_tracer_provider", None)  # none while the module is being imported
    provider = None if find is None else find()
    if provider is not None and not type(provider).__module__.startswith(_TRACE_API):
        use(provider)
    return _spans


def use(provider: object) -> None:
    """Make spans with a provider of the program's; None: make none, unless OpenTelemetry is set up."""
    global _spans  # noqa: PLW0603 - a process has one set-up
    spans = None if provider is None else import_module("rowbus.running.telemetry.spans").Spans(provider)
    _spans = spans
