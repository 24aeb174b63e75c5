"""The message-flow report as tables of text, for a terminal.

Invariant: pure; a table without rows is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.spark.pipelines.report.units import count, size, span

if TYPE_CHECKING:
    from rowbus.spark.pipelines.report.tables import ReportTables

Row = Mapping[str, Any]
PREVIEW: Final = 60  # characters of an exception's message


class Shown(NamedTuple):
    """A table: its title, its columns (those with `#` at their end are numbers), its rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


def tables(report: ReportTables) -> list[Shown]:
    """Return the tables that have rows."""
    found = [
        Shown(title, columns, [make(row) for row in report.rows(name)])
        for name, title, columns, make in _TABLES
    ]
    return [table for table in found if table.rows]


def nothing_found(report: ReportTables) -> str:
    """Return the sentence for a report without a message or event."""
    asked = report.since is not None or report.until is not None
    return "There is neither a message nor an event" + (" in the time asked for." if asked else ".")


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


_PERCENTILES: Final = ("median#", "95 %#", "99 %#", "longest#")
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
