"""The tables of a message-flow report, and their text for a terminal: numbers, spans, sizes and moments.

Invariants: all is pure and needs no Spark; a table without rows is left out; every finite number has a text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

PREVIEW: Final = 60  # characters of an exception's message
_PERCENTILES: Final = ("median#", "95 %#", "99 %#", "longest#")
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_MINUTES: Final = 120  # seconds from which on a latency is told in minutes
MEANINGS: Final = {
    "overview": "What the report is about: messages, events, and the times they tell of",
    "throughput": "Messages sent, processed and failed, by type and span of time",
    "latency": "Seconds in each stage, by type and endpoint",
    "failures": "Failures that belong together",
    "waiting": "What waits in the queues",
    "delays": "Seconds that delayed messages were started after they were due",
    "event_types": "Events by type",
    "events": "Events by type and span of time",
    "tick_delay": "Seconds that events waited for their tick",
    "logs": "How far logs are ticked",
    "consumers": "How far behind the consumers of logs are",
}
"""The tables that there may be, in the order in which they are shown."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ReportTables:
    """The tables of a report, each an Arrow table by its name in `MEANINGS`, and what they were made of."""

    made_at: datetime
    inputs: Sequence[str]
    """The sources that were read, in words: `queue "public"."error"`, `log shop`."""
    tables: Mapping[str, pa.Table]
    since: datetime | None = None
    until: datetime | None = None
    truncated: frozenset[str] = field(default_factory=frozenset)
    """Tables that had more rows than are kept; those kept are the first."""

    @property
    def is_empty(self) -> bool:
        """Whether there was neither a message nor an event."""
        overview = self.overview
        return not (overview.get("messages") or overview.get("events"))

    @property
    def overview(self) -> dict[str, Any]:
        """The one row of the table `overview`."""
        rows = self.rows("overview")
        return rows[0] if rows else {}

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return a table's rows; none if there is no such table."""
        table = self.tables.get(name)
        rows: list[dict[str, Any]] = [] if table is None else table.to_pylist()
        return rows


class TextTable(NamedTuple):
    """A table: its title, its columns (those with `#` at their end are numbers), its rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


def tables(report: ReportTables) -> list[TextTable]:
    """Return the tables that have rows."""
    found = [
        TextTable(title, columns, [make(row) for row in report.rows(name)])
        for name, title, columns, make in _TABLES
    ]
    return [table for table in found if table.rows]


def nothing_found(report: ReportTables) -> str:
    """Return the sentence for a report without a message or event."""
    asked = report.since is not None or report.until is not None
    return "There is neither a message nor an event" + (" in the time asked for." if asked else ".")


def span(seconds: float | None) -> str:
    """Write a latency: `0.4 ms`, `12 ms`, `3.4 s`, `5 min`, `2.5 h`; nothing for none."""
    if seconds is None:
        return ""
    size = abs(seconds)
    if size < 1:
        return f"{_short(seconds * 1000)} ms"
    if size < _MINUTES:
        return f"{_short(seconds)} s"
    unit, name = next((unit, name) for unit, name in _UNITS if size >= 2 * unit)
    return f"{_short(seconds / unit)} {name}"


def bucket_name(seconds: int) -> str:
    """Write the length of a bucket, as in `per 5 min`."""
    unit, name = next((unit, name) for unit, name in _UNITS if seconds % unit == 0)
    return name if seconds == unit else f"{seconds // unit} {name}"


def count(number: float) -> str:
    """Write a number of things: `1,234`."""
    return f"{number:,.0f}"


def size(number: float) -> str:
    """Write a number of bytes: `512 B`, `3.4 MiB`."""
    amount, units = float(number), ["B", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:  # noqa: PLR2004 - bytes in a KiB
        amount, units = amount / 1024, units[1:]
    return f"{amount:,.0f} B" if units[0] == "B" else f"{amount:,.1f} {units[0]}"


def moment(at: datetime | None) -> str:
    """Write a moment, in UTC, to the second."""
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _latency(row: Row) -> Sequence[object]:
    return row["stage"], *_delay(row)


def _delay(row: Row) -> Sequence[object]:
    return row["message_type"], row["endpoint"], count(row["messages"]), *_spans(row)


def _failure(row: Row) -> Sequence[object]:
    pattern = row["pattern"]
    said = pattern if len(pattern) <= PREVIEW else f"{pattern[: PREVIEW - 1]}…"
    return count(row["messages"]), row["endpoint"], row["exception"], said, row["where"]


def _waiting(row: Row) -> Sequence[object]:
    return row["queue"], row["message_type"], count(row["messages"]), *_spans(row)


def _event(row: Row) -> Sequence[object]:
    return row["log"], row["event_type"], count(row["events"]), count(row["retries"]), size(row["bytes"])


def _tick(row: Row) -> Sequence[object]:
    return row["log"], row["event_type"], count(row["events"]), *_spans(row)


def _consumer(row: Row) -> Sequence[object]:
    return row["log"], row["consumer"], span(row["lag"]), count(row["pending"] or 0)


def _spans(row: Row) -> list[str]:
    return [span(row[name]) for name in ("p50", "p95", "p99", "most")]


def _short(number: float) -> str:
    """Write three digits at most, and no zeros after the point."""
    digits = 0 if abs(number) >= 99.5 else 1 if abs(number) >= 9.95 else 2  # noqa: PLR2004 - three digits
    text = f"{number:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_TABLES: Final[Sequence[tuple[str, str, Sequence[str], Callable[[Row], Sequence[object]]]]] = (
    ("latency", "Latency", ("stage", "message type", "endpoint", "messages#", *_PERCENTILES), _latency),
    ("failures", "Failures", ("messages#", "endpoint", "exception", "message", "raised in"), _failure),
    (
        "delays",
        "Lateness of delayed messages",
        ("message type", "endpoint", "messages#", *_PERCENTILES),
        _delay,
    ),
    ("waiting", "Waiting", ("queue", "message type", "messages#", *_PERCENTILES), _waiting),
    ("event_types", "Events", ("log", "event type", "events#", "retries#", "data#"), _event),
    ("tick_delay", "From event to tick", ("log", "event type", "events#", *_PERCENTILES), _tick),
    ("consumers", "Consumers", ("log", "consumer", "behind#", "events before it#"), _consumer),
)
