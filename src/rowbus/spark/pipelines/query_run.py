"""A run of a pipeline's query: until its end or a stop; reports progress, and raises Rowbus's error if it failed.

Invariant: a query that was started here has ended when `run` returns or raises.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rowbus import errors
from rowbus.errors import ConfigurationError, RowbusError, StorageError
from rowbus.running.functions import check_function
from rowbus.spark.log_source.offset import offsets_from_json
from rowbus.spark.micro_batch import behind

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

    from rowbus.spark.log_source.offset import Offsets

LOOK: Final = 0.2  # seconds between two looks at a query
_OURS: Final = re.compile(r"rowbus\.errors\.(\w+): (.*)")


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


def start(writer: DataStreamWriter, *, follow: bool, name: str, trigger: str = "1 second") -> StreamingQuery:
    """Start a query: until the present end, or with `follow` continuously, at this interval."""
    writer = writer.trigger(processingTime=trigger) if follow else writer.trigger(availableNow=True)
    return writer.queryName(name).start()


def run(query: StreamingQuery, *, watch: Watch | None = None, stop: Stop | None = None) -> Progress:
    """Wait until a query has ended, or end it at a stop; return its progress.

    Raises the RowbusError that ended it, or a StorageError with Spark's message.
    """
    seen = _Seen()
    try:
        while not query.awaitTermination(LOOK):  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            # It raises what ended the query, and takes fractions of a second.
            if seen.take(query) and watch is not None:
                watch(seen.progress)
            if stop is not None and stop.event.is_set():
                break
    except Exception as error:
        raise explain(error) from error
    finally:
        query.stop()
        seen.take(query)
    if watch is not None:
        watch(seen.progress)
    return seen.progress


def explain(error: Exception) -> RowbusError:
    """Return Rowbus's error from Spark's message of forty lines, if there is one; else its first sentences."""
    if isinstance(error, RowbusError):
        return error
    text = str(error)
    if found := _OURS.findall(text):
        name, message = found[-1]
        kind = getattr(errors, name, StorageError)
        facts = {"sqlstate": None, "transient": False} if issubclass(kind, StorageError) else {}
        return kind(message.strip(), **facts)
    return StorageError(f"Spark failed: {_first_lines(text)}", sqlstate=None, transient=False)


def options_of(frame: DataStreamReader, options: Mapping[str, str | int | None]) -> None:
    """Set the options that have a value."""
    for name, value in options.items():
        if value is not None:
            frame.option(name, value)


class _Seen:
    """The progress events of a query so far."""

    def __init__(self) -> None:
        self.progress = Progress(0, 0)
        self._last = -1

    def take(self, query: StreamingQuery) -> bool:
        """Read new progress events; return whether there were any."""
        new = [report for report in query.recentProgress if report["batchId"] > self._last]
        new = [report for report in new if report["numInputRows"] or _moved(report)]
        if not new:
            return False
        self._last = new[-1]["batchId"]
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


def _first_lines(text: str) -> str:
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")
    ]
    return " ".join(lines[:4])[:600] or "Spark gave no reason."
