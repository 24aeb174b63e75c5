"""The message-flow report as one page: it loads nothing, runs no script, and can be read in light and in dark.

The template `templates/report.html` has the page's structure; this module chooses the numbers and draws the charts.

Invariant: the page's content security policy forbids scripts and every request, so that even a mistake of ours cannot
make a message's content do anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.spark.pipelines.report.charts import Axis, Count, Kinds, ranges, stacked_bars
from rowbus.spark.pipelines.report.charts import render as fill
from rowbus.spark.pipelines.report.tables import MEANINGS
from rowbus.spark.pipelines.report.text import bucket_name, nothing_found

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from markupsafe import Markup

    from rowbus.spark.pipelines.report.tables import ReportTables

    Row = Mapping[str, Any]

MOST_ROWS: Final = 50  # rows of a table on the page; the files have all of them
STAGES: Final = {
    "queueing": "Queueing: from sent, or due, until a handler started",
    "processing": "Processing: from started to ended",
    "whole": "The whole way: from sent, or due, to ended",
    "until failure": "Until failure: from sent to the error queue",
}
HAPPENED: Final = {"processed": "Processed", "sent": "Sent", "failed": "Failed"}


class Plot(NamedTuple):
    """A chart over time, its title, and how many counts lie outside the time that it shows."""

    title: str
    chart: Markup
    outside: int


class Spread(NamedTuple):
    """Latencies as a chart and as a table; `names` and `of` are the columns that name and count the rows."""

    title: str
    chart: Markup
    rows: Sequence[Row]
    names: Sequence[str]
    of: str


def render(report: ReportTables) -> str:
    """Return the report as a page."""
    messages, events = _message_counts(report), _event_counts(report)
    of_messages = Kinds([each for counts in messages.values() for each in counts])
    of_events = Kinds(events)
    values = {
        "report": report,
        "rows": report.rows,
        "most_rows": MOST_ROWS,
        "nothing": nothing_found(report) if report.is_empty else "",
        "period": _period(report.overview),
        "tables": [name for name in MEANINGS if name in report.tables],
        "throughput": [
            _plot(report, "messages", HAPPENED[happened], counts, of_messages)
            for happened, counts in messages.items()
            if counts
        ],
        "message_kinds": of_messages.names,
        "latency": _stages(report.rows("latency")),
        "early": sum(row["early"] for row in report.rows("latency")),
        "delays": _spread("Delayed messages", report.rows("delays"), "message_type", "endpoint"),
        "waiting": _spread("Waiting", report.rows("waiting"), "queue", "message_type"),
        "written": [_plot(report, "events", "Written", events, of_events)] if events else [],
        "event_kinds": of_events.names,
        "ticks": _spread("From event to tick", report.rows("tick_delay"), "log", "event_type", of="events"),
    }
    return fill("report.html", values)


def _period(overview: Row) -> tuple[datetime, datetime] | None:
    """Return the first and the last moment; None if no message and no event has a time."""
    begun, done = (
        [found for name in ("messages", "events") if (found := overview.get(f"{name}_{side}"))]
        for side in ("from", "to")
    )
    return (min(begun), max(done)) if begun and done else None


def _message_counts(report: ReportTables) -> dict[str, list[Count]]:
    counts: dict[str, list[Count]] = {happened: [] for happened in HAPPENED}
    for row in report.rows("throughput"):
        counts[row["happened"]].append(
            Count(row["start"], row["seconds"], row["message_type"], row["messages"])
        )
    return counts


def _event_counts(report: ReportTables) -> list[Count]:
    return [
        Count(row["start"], row["seconds"], f"{row['log']}: {row['event_type']}", row["events"])
        for row in report.rows("events")
    ]


def _plot(report: ReportTables, of: str, happened: str, counts: Sequence[Count], kinds: Kinds) -> Plot:
    overview = report.overview
    axis = Axis.around(overview[f"{of}_from"], overview[f"{of}_to"], counts[0].seconds)
    title = f"{happened}, {of} per {bucket_name(axis.bucket)}"
    outside = sum(each.number for each in counts if not axis.holds(each.start))
    return Plot(title, stacked_bars(title, counts, kinds, axis), outside)


def _stages(rows: Sequence[Row]) -> list[Spread]:
    found = (
        _spread(title, [row for row in rows if row["stage"] == stage], "message_type", "endpoint")
        for stage, title in STAGES.items()
    )
    return [each for each in found if each]


def _spread(title: str, rows: Sequence[Row], *names: str, of: str = "messages") -> Spread | None:
    return Spread(title, ranges(title, rows[:MOST_ROWS], names), rows, names, of) if rows else None
