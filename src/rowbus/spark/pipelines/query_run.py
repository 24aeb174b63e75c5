"""A run of a pipeline's query: until its end or a stop; reports progress, and raises Rowbus's error if it failed.

Invariant: a query that was started here has ended when `run` returns or raises.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.errors import ConfigurationError, RowbusError
from rowbus.running.backoff import jittered
from rowbus.running.critical import Outage
from rowbus.running.functions import check_function
from rowbus.spark.log_source.offset import offsets_from_json
from rowbus.spark.micro_batch import behind
from rowbus.spark.pipelines.policy import Failures, explain, pause_before

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

    from rowbus.spark.log_source.offset import Offsets

INTERVAL: Final = "1 second"  # between two micro-batches
LOOK: Final = 0.2  # seconds between two looks at a query

logger = logging.getLogger("rowbus.spark")


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a query."""

    batches: int
    """Micro-batches of this run."""

    events: int
    """Rows read in this run."""

    ticks_behind: int | None = None
    """Ticks of the logs that are not read yet; None if unknown."""

    seconds_behind: float | None = None
    """The time between the newest tick read and the log's newest tick."""

    ends: dict[str, int] = field(default_factory=dict[str, int])
    """The ticks at the end of the newest durable batch, by log."""


class Most(NamedTuple):
    """The size of a micro-batch at most, about; None: all there is."""

    events: int | None
    bytes: int | None


Watch = Callable[[Progress], object]


@dataclass
class Stop:
    """Tells a continuous query to end; safe to set from a signal handler."""

    event: threading.Event = field(default_factory=threading.Event)

    def __call__(self, *_anything: object) -> None:
        """Ask for the end."""
        self.event.set()


def check_listeners(watch: Watch | None, tell: Callable[[str], object] | None = None) -> None:
    """Raise ConfigurationError for a function that cannot be told of progress, or would have to be awaited."""
    if watch is not None:
        check_function(watch, "watch", "progress")
    if tell is not None:
        check_function(tell, "tell", "text")


def run(
    make: Callable[[], DataStreamWriter],
    *,
    follow: bool,
    name: str,
    prepare: Callable[[], object] = lambda: None,
    watch: Watch | None = None,
    stop: Stop | None = None,
) -> Progress:
    """Run a query until the present end, or with `follow` until a stop, made and begun again after faults that pass.

    Calls `prepare` each time before it makes it. Raises the RowbusError that ended it, or a StorageError with Spark's
    message.
    """

    def begin() -> StreamingQuery:
        prepare()
        writer = make()
        timed = writer.trigger(processingTime=INTERVAL) if follow else writer.trigger(availableNow=True)
        return timed.queryName(name).start()

    if follow:
        return keep_running(begin, watch=watch, stop=stop)
    return _run(begin, _ProgressReader(Outage("The query", logger)), watch, stop or Stop())


def keep_running(
    begin: Callable[[], StreamingQuery], *, watch: Watch | None = None, stop: Stop | None = None
) -> Progress:
    """Begin a query, and begin it again with growing pauses after faults that pass, until it ends or `stop` is called.

    A server that restarts is waited for without end. Another failure ends it when five attempts in a row come to no
    micro-batch, and at once if it never passes: lost events, what is not there, what was not allowed, Spark's Java
    process that has ended. Then the error is raised. `begin` starts a query with a checkpoint of its own; `watch` is
    told of progress.
    """
    check_listeners(watch)
    seen, failures, stop = _ProgressReader(Outage("The query", logger)), Failures(), stop or Stop()
    while True:
        batches = seen.progress.batches
        try:
            return _run(begin, seen, watch, stop)
        except RowbusError as error:
            failures = (Failures() if seen.progress.batches > batches else failures).and_one(error)
            pause = pause_before(error, failures)
            if pause is None:
                raise
            seen.outage.failed(error)
        if stop.event.wait(jittered(pause, random.random)):
            return seen.progress


def _run(
    begin: Callable[[], StreamingQuery], seen: _ProgressReader, watch: Watch | None, stop: Stop
) -> Progress:
    try:
        query = begin()
        try:
            _await(query, seen, watch, stop)
        finally:
            query.stop()
            seen.take(query)
    except Exception as error:
        raise explain(error) from error
    if watch is not None:
        watch(seen.progress)
    return seen.progress


def _await(query: StreamingQuery, seen: _ProgressReader, watch: Watch | None, stop: Stop) -> None:
    """Wait for the end of a query, which raises what ended it, or for a stop."""
    while not query.awaitTermination(LOOK):  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        # It takes fractions of a second.
        if seen.take(query) and watch is not None:
            watch(seen.progress)
        if stop.event.is_set():
            return


def options_of(frame: DataStreamReader, options: Mapping[str, str | int | None]) -> None:
    """Set the options that have a value."""
    for name, value in options.items():
        if value is not None:
            frame.option(name, value)


class _ProgressReader:
    """The progress events of a query so far; the first after a failure ends the outage."""

    def __init__(self, outage: Outage) -> None:
        self.progress = Progress(0, 0)
        self.outage = outage
        self._last = -1

    def take(self, query: StreamingQuery) -> bool:
        """Read new progress events; return whether there were any."""
        new = [report for report in query.recentProgress if report["batchId"] > self._last]
        new = [report for report in new if report["numInputRows"] or _moved(report)]
        if not new:
            return False
        self._last = new[-1]["batchId"]
        self.outage.succeeded()
        ahead = behind(new[-1]["sources"])
        rows = sum(report["numInputRows"] for report in new)
        ends = {
            log: at.at.tick
            for source in new[-1]["sources"]
            for log, at in _offsets(source["endOffset"]).items()
        }
        self.progress = Progress(
            self.progress.batches + len(new),
            self.progress.events + rows,
            ahead.ticks if ahead else None,
            ahead.seconds if ahead else None,
            ends,
        )
        return True


def _moved(report: Any) -> bool:  # noqa: ANN401 - Spark's report
    return any(source["startOffset"] != source["endOffset"] for source in report["sources"])


def _offsets(text: Any) -> Offsets:  # noqa: ANN401 - Spark's report
    try:
        return offsets_from_json(text)
    except (ConfigurationError, ValueError, TypeError):
        return {}
