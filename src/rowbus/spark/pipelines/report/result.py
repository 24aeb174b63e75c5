"""The result of a message-flow report: small tables, written as files and as a page.

Invariant: needs no Spark. The page loads nothing, runs no script, and can be read in light and in dark: its content
security policy forbids scripts and every request, so that even a mistake of ours cannot make a message's content do
anything.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from rowbus.spark.pipelines.report.charts import Axis, Count, Kinds, ranges, stacked_bars
from rowbus.spark.pipelines.report.charts import render as fill
from rowbus.spark.pipelines.report.text import MEANINGS, ReportTables, bucket_name, nothing_found

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from markupsafe import Markup

    from rowbus.log.diagnosis import ConsumerState, LogState

    Row = Mapping[str, Any]

PAGE: Final = "report.html"
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


@dataclass(frozen=True)
class FlowReport(ReportTables):
    """A report: its tables, written as files and as a page."""

    def page(self) -> str:
        """Return the report as one HTML page, which needs nothing else and runs no script."""
        return render(self)

    def as_json(self) -> dict[str, object]:
        """Return the report for programs: every table as a list of objects."""
        about = {
            "made_at": self.made_at,
            "inputs": list(self.inputs),
            "since": self.since,
            "until": self.until,
            "truncated": sorted(self.truncated),
        }
        return {**about, "tables": {name: self.rows(name) for name in self.tables}}

    def write(self, directory: Path) -> list[Path]:
        """Write the page, and each table as Parquet, CSV and JSON; return the files, the page first.

        The directory is made if it is missing. Tables of an earlier report that this one does not have are removed.
        Raises OSError.
        """
        directory.mkdir(parents=True, exist_ok=True)
        page = directory / PAGE
        page.write_text(self.page(), encoding="utf-8")
        self._remove_old(directory)
        return [page, *(path for name in self.tables for path in self._write_table(directory, name))]

    def _remove_old(self, directory: Path) -> None:
        for name in MEANINGS.keys() - self.tables.keys():
            for ending in ("parquet", "csv", "json"):
                (directory / f"{name}.{ending}").unlink(missing_ok=True)

    def _write_table(self, directory: Path, name: str) -> list[Path]:
        import pyarrow.parquet as pq  # noqa: PLC0415 - only needed here

        parquet, text, objects = (directory / f"{name}.{ending}" for ending in ("parquet", "csv", "json"))
        table, rows = self.tables[name], self.rows(name)
        pq.write_table(table, parquet)  # pyright: ignore[reportUnknownMemberType] - its stubs are partial
        with text.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, table.column_names)
            writer.writeheader()
            writer.writerows({column: _cell(value) for column, value in row.items()} for row in rows)
        objects.write_text(
            f"{json.dumps(rows, default=_plain, ensure_ascii=False, indent=1)}\n", encoding="utf-8"
        )
        return [parquet, text, objects]


def table_of(records: Sequence[ConsumerState] | Sequence[LogState]) -> pa.Table:
    """Return facts gathered by the database layer as an Arrow table; spans in seconds."""
    import pyarrow as pa  # noqa: PLC0415 - only needed here

    return pa.Table.from_pylist([{k: _seconds(v) for k, v in record._asdict().items()} for record in records])


def _seconds(value: Any) -> Any:  # noqa: ANN401 - any value of a column
    return value.total_seconds() if hasattr(value, "total_seconds") else value


def _plain(value: object) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)


def _cell(value: object) -> object:
    if isinstance(value, list):
        return _defused("; ".join(map(str, cast("list[object]", value))))
    if isinstance(value, datetime):
        return _plain(value)
    return _defused(value) if isinstance(value, str) else value


def _defused(text: str) -> str:
    """Keep a spreadsheet from taking text of a message for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
