"""The message-flow report as one page: nothing is loaded, no script runs, and it can be read in light and in dark.

Invariant: the content security policy forbids scripts and every request, so that even a mistake of ours cannot make a
message's content do anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from rowbus.spark.pipelines.report.chart import Axis, Count, Kinds, Ranges, stacked_bars
from rowbus.spark.pipelines.report.html import Html, document, join, style, tag
from rowbus.spark.pipelines.report.parts import Column, Row, section, table
from rowbus.spark.pipelines.report.result import MEANINGS
from rowbus.spark.pipelines.report.units import bucket_name, count, moment, size, span
from rowbus.spark.pipelines.report.text import nothing_found

if TYPE_CHECKING:
    from rowbus.spark.pipelines.report.result import FlowReport

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
STAGES: Final = {
    "queueing": "Queueing: from sent, or due, until a handler started",
    "processing": "Processing: from started to ended",
    "whole": "The whole way: from sent, or due, to ended",
    "until failure": "Until failure: from sent to the error queue",
}
HAPPENED: Final = {"processed": "Processed", "sent": "Sent", "failed": "Failed"}


def render(report: FlowReport) -> str:
    """Return the report as a page."""
    sections = (
        _throughput(report),
        _latency(report),
        _failures(report),
        _delays(report),
        _waiting(report),
        _events(report),
        _ticks(report),
        _consumers(report),
    )
    css = files("rowbus.spark.pipelines.report").joinpath("page.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", "Message flow"),
        style(css),
    )
    return document("en", head, tag("body", _head(report), tag("main", sections), _foot(report)))


def _head(report: FlowReport) -> Html:
    title = tag("h1", "Message flow")
    read = tag("p", f"From {', '.join(report.inputs)}.", class_="soft")
    if report.is_empty:
        return tag("header", title, read, tag("p", nothing_found(report)))
    return tag("header", title, tag("p", _period(report.overview)), read, _tiles(report.overview))


def _period(overview: Row) -> str:
    begun, done = (
        [found for name in ("messages", "events") if (found := overview.get(f"{name}_{side}"))]
        for side in ("from", "to")
    )
    return (
        f"{moment(min(begun))} to {moment(max(done))} (UTC)"
        if begun and done
        else "At times that nobody tells."
    )


def _tiles(overview: Row) -> Html:
    tiles = [(overview.get(name), name, name) for name in ("processed", "failed", "waiting")]
    tiles.append((overview.get("message_types"), "message types", ""))
    tiles.append((overview.get("events"), "events", ""))
    tiles.append((overview.get("unreadable"), "unreadable", "failed"))
    return tag(
        "ul",
        [
            tag("li", tag("b", count(number)), tag("span", name), class_="bad" if kind == "failed" else None)
            for number, name, kind in tiles
            if number
        ],
        class_="tiles",
    )


def _throughput(report: FlowReport) -> Html | None:
    rows = report.rows("throughput")
    of = {
        happened: [
            Count(row["start"], row["seconds"], row["message_type"], row["messages"])
            for row in rows
            if row["happened"] == happened
        ]
        for happened in HAPPENED
    }
    kinds = Kinds([each for counts in of.values() for each in counts])
    plots = [
        _plot(report, "messages", HAPPENED[happened], counts, kinds)
        for happened, counts in of.items()
        if counts
    ]
    return section("Throughput", None, kinds.legend(), plots) if plots else None


def _plot(report: FlowReport, of: str, title: str, counts: Sequence[Count], kinds: Kinds) -> Html:
    overview = report.overview
    axis = Axis.around(overview[f"{of}_from"], overview[f"{of}_to"], counts[0].seconds)
    outside = sum(each.number for each in counts if not axis.holds(each.start))
    note = tag("p", f"{count(outside)} lie far outside the time shown.", class_="soft") if outside else None
    told = f"{title}, {of} per {bucket_name(axis.bucket)}"
    return join(tag("h3", told), tag("div", stacked_bars(told, counts, kinds, axis), class_="scroll"), note)


def _latency(report: FlowReport) -> Html | None:
    rows = report.rows("latency")
    parts = [
        join(tag("h3", title), _ranges([row for row in rows if row["stage"] == stage], "messages"))
        for stage, title in STAGES.items()
        if any(row["stage"] == stage for row in rows)
    ]
    told = "Bars reach from the median to 99 %, with a mark at 95 %; the dot is the longest. The axis is logarithmic."
    early = sum(row["early"] for row in rows)
    skew = f" {count(early)} times are negative: the clocks of machines disagree." if early else ""
    return section("Latency", told + skew, parts) if parts else None


def _ranges(
    rows: Sequence[Row], of: str, first: str = "message_type", second: str = "endpoint"
) -> Html | None:
    ranges = Ranges(rows)
    return table(
        rows,
        Column(_title(first), first),
        Column(_title(second), second),
        Column(_title(of), of, count, "number"),
        Column(ranges.axis(), "", ranges.bar, "plotted"),
        Column("median", "p50", span, "number"),
        Column("95 %", "p95", span, "number"),
        Column("99 %", "p99", span, "number"),
        Column("longest", "most", span, "number"),
    )


def _failures(report: FlowReport) -> Html | None:
    rows = report.rows("failures")
    if not rows:
        return None
    told = "One kind have endpoint, exception, message and the way through the code in common, numbers and ids aside."
    return section(
        "Failures",
        told,
        table(
            rows,
            Column("messages", "messages", count, "number bad"),
            Column("endpoint", "endpoint"),
            Column("exception", "", _exception),
            Column("message types", "message_types", _lines),
            Column("first", "first", moment, "when"),
            Column("last", "last", moment, "when"),
        ),
    )


def _lines(names: Sequence[str]) -> list[Html]:
    return [tag("div", name) for name in names]


def _exception(row: Row) -> Html:
    where = tag("div", "in ", tag("code", row["where"]), class_="soft") if row["where"] else None
    sample = tag(
        "details",
        tag("summary", "the last one"),
        tag("pre", row["sample"] or ""),
        tag("div", "message ", tag("code", row["sample_message_id"]), class_="soft"),
    )
    return join(tag("strong", row["exception"]), tag("div", row["pattern"]), where, sample)


def _delays(report: FlowReport) -> Html | None:
    rows = report.rows("delays")
    told = "How long after the moment it was to be delivered at a delayed message was started."
    return section("Delayed messages", told, _ranges(rows, "messages")) if rows else None


def _waiting(report: FlowReport) -> Html | None:
    rows = report.rows("waiting")
    told = "What was in the queues when they were looked at."
    return section("Waiting", told, _ranges(rows, "messages", "queue", "message_type")) if rows else None


def _events(report: FlowReport) -> Html | None:
    rows = report.rows("event_types")
    if not rows:
        return None
    counts = [
        Count(row["start"], row["seconds"], f"{row['log']}: {row['event_type']}", row["events"])
        for row in report.rows("events")
    ]
    kinds = Kinds(counts)
    of_types = table(
        rows,
        Column("log", "log"),
        Column("event type", "event_type"),
        Column("events", "events", count, "number"),
        Column("of them retries", "retries", count, "number"),
        Column("data", "bytes", size, "number"),
        Column("first", "first", moment, "when"),
        Column("last", "last", moment, "when"),
    )
    plot = [kinds.legend(), _plot(report, "events", "Written", counts, kinds)] if counts else []
    return section("Events", None, plot, of_types)


def _ticks(report: FlowReport) -> Html | None:
    rows = report.rows("tick_delay")
    told = "From writing an event until it could be read: its transaction had ended, and a tick had come."
    return section("From event to tick", told, _ranges(rows, "events", "log", "event_type")) if rows else None


def _consumers(report: FlowReport) -> Html | None:
    logs, consumers = report.rows("logs"), report.rows("consumers")
    if not logs:
        return None
    of_logs = table(
        logs,
        Column("log", "log"),
        Column("last tick", "last_tick_time", moment, "when"),
        Column("not ticked yet", "new_events", count, "number"),
        Column("slowest consumer", "greatest_lag", span, "number"),
        Column("size", "bytes", size, "number"),
    )
    of_consumers = table(
        consumers,
        Column("log", "log"),
        Column("consumer", "consumer"),
        Column("behind", "lag", span, "number"),
        Column("events before it", "pending", count, "number"),
        Column("last seen ago", "last_seen", span, "number"),
        Column("dead letters", "dead_letters", count, "number"),
    )
    return section(
        "Logs and consumers", None, of_logs, tag("h3", "Consumers") if consumers else None, of_consumers
    )


def _foot(report: FlowReport) -> Html:
    tables = ", ".join(name for name in MEANINGS if name in report.tables)
    cut = (
        f" Cut off after their first rows: {', '.join(sorted(report.truncated))}." if report.truncated else ""
    )
    return tag(
        "footer",
        f"Made by Rowbus at {moment(report.made_at)} (UTC). The tables ({tables}) lie beside this page as Parquet, CSV "
        f"and JSON; latencies there are seconds.{cut}",
    )


def _title(name: str) -> str:
    return name.replace("_", " ")
