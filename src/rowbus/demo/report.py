"""The summary as a few tables that fit a terminal of 80 columns.

Invariant: the last line is the verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import Console

    from rowbus.demo.summary import Summary

MOST_REASONS = 4
_COLOURS = {
    "shipped": "green",
    "declined": "yellow",
    "rejected": "yellow",
    "failed": "red",
    "unfinished": "red",
}
_ASIDES = (
    "Orders come one by one in the quiet hour and all at once in the rush, where they mostly wait in line. "
    "{retried:,} charges timed out and worked when retried at once; {retried_later:,} found the bank down and worked "
    "when retried a second later; {put_back:,} ended in the error queue, and worked when put back, after the bank was "
    "mended. Of {due:,} orders, {reminded:,} were not paid when payment was due and got a reminder. "
    "Of {asked:,} questions about delivery, {answered:,} were answered in time and {expired:,} expired in the queue. "
    "Bookkeeping has read {events:,} changes from the log in {batches:,} batches, half of them within {half}."
)


def show(summary: Summary, console: Console) -> None:
    """Print the whole summary."""
    for table in (_outcomes(summary), _speed(summary), _loads(summary), _failures(summary), _checks(summary)):
        if table.row_count:
            console.print(table)
    console.print(_asides(summary), highlight=False)
    console.print(_verdict(summary), highlight=False)


def _outcomes(summary: Summary) -> Table:
    table = _table("Orders", ">number", ">share", "why")
    by_outcome: dict[str, list[dict[str, Any]]] = {}
    for row in summary.figures["outcomes"]:
        by_outcome.setdefault(row["outcome"], []).append(row)
    for name, rows in by_outcome.items():
        number = sum(row["number"] for row in rows)
        share = f"{100 * number / summary.lines:.1f} %"
        table.add_row(f"[{_COLOURS[name]}]{name}[/]", f"{number:,}", share, _reasons(rows))
    return table


def _reasons(rows: list[dict[str, Any]]) -> str:
    told = [f"{row['number']:,} {escape(_short(row['reason']))}" for row in rows if row["reason"]]
    rest = sum(row["number"] for row in rows[MOST_REASONS:])
    return "; ".join(told[:MOST_REASONS]) + (f"; {rest:,} for other reasons" if rest else "")


def _speed(summary: Summary) -> Table:
    table = _table("Speed", ">orders", ">orders/s", ">half within", ">95 %", ">99 %", ">all")
    for row in summary.figures["periods"]:
        latencies = (_duration(row[name]) for name in ("median", "p95", "p99", "most"))
        name = "rush" if row["rush"] else "quiet hour"
        table.add_row(name, f"{row['orders']:,}", _rate(row["orders"], row["seconds"]), *latencies)
    return table


def _loads(summary: Summary) -> Table:
    table = _table("Endpoint", ">messages handled", ">messages/s in the rush")
    for row in summary.figures["endpoints"]:
        table.add_row(row["endpoint"], f"{row['messages']:,}", _rate(row["in_rush"], row["seconds"]))
    return table


def _failures(summary: Summary) -> Table:
    table = _table("In the error queue", ">number", "message", "explanation")
    for row in summary.figures["failures"]:
        kind, explanation = escape(_short(row["exception"])), escape(row["explanation"])
        table.add_row(f"[red]{kind}[/]", f"{row['number']:,}", _short(row["message_type"]), explanation)
    return table


def _checks(summary: Summary) -> Table:
    table = _table("", "Reconciliation", ">checked")
    for check in summary.checks:
        verdict = "[green]PASS[/]" if check.passed else "[bold red]FAIL[/]"
        table.add_row(verdict, escape(check.title), f"{check.checked:,}")
        if not check.passed:
            example = f", for example: {escape(check.example)}" if check.example else ""
            table.add_row("", f"[red]{check.wrong:,} wrong{example}[/]", "")
    return table


def _asides(summary: Summary) -> str:
    aside, books = summary.figures["sidelines"], summary.figures["books"]
    expired, half = aside["asked"] - aside["answered"], _duration(books["behind"])
    told = _ASIDES.format(**aside, **books, expired=expired, half=half)
    if summary.spark is None:
        return told
    archive, report, seconds = summary.spark
    return (
        f"{told}\nSpark has archived the log, replicated two tables and reported in {_duration(seconds)}.\n"
        f"Archive: {escape(archive)}\nReport: {escape(report)}"
    )


def _verdict(summary: Summary) -> str:
    wrong = [check for check in summary.checks if not check.passed]
    if wrong:
        return f"[bold red]FAIL[/]: {len(wrong)} of {len(summary.checks)} checks failed."
    return (
        f"[bold green]PASS[/]: all {len(summary.checks)} checks hold for all {summary.lines:,} lines "
        f"({summary.seconds:.1f} s)."
    )


def _table(title: str, *columns: str) -> Table:
    """Make a table; a column whose title begins with `>` is set flush right."""
    table = Table(title, box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left")
    return table


def _rate(number: int, seconds: float) -> str:
    return f"{number / seconds:,.0f}" if seconds > 0 else ""


def _duration(seconds: float) -> str:
    return f"{1000 * seconds:,.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _short(name: str | None) -> str:
    """Return the last part of a dotted name; other text as it is."""
    text = name or ""
    return text if " " in text else text.rpartition(".")[2]
