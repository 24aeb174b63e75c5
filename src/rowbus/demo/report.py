"""Shows the summary of a run: a few tables that fit a terminal of 80 columns.

Invariant: the last line is the verdict.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import Console

    from rowbus.demo.reconciliation import Check
    from rowbus.demo.summary import Outcome, Period, Summary

MOST_REASONS = 4
_COLOURS = {
    "shipped": "green",
    "declined": "yellow",
    "rejected": "yellow",
    "failed": "red",
    "unfinished": "red",
}


def show(summary: Summary, console: Console) -> None:
    """Print the whole summary."""
    for table in (_outcomes(summary), _speed(summary), _loads(summary), _failures(summary), _checks(summary)):
        if table.row_count:
            console.print(table)
    console.print(_asides(summary), highlight=False)
    console.print(_verdict(summary), highlight=False)


def _outcomes(summary: Summary) -> Table:
    table = _table("Orders", ">number", ">share", "why")
    by_outcome: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in summary.outcomes:
        by_outcome[outcome.outcome].append(outcome)
    for name, outcomes in by_outcome.items():
        number = sum(outcome.number for outcome in outcomes)
        share = f"{100 * number / summary.lines:.1f} %"
        table.add_row(f"[{_COLOURS[name]}]{name}[/]", f"{number:,}", share, _reasons(outcomes))
    return table


def _reasons(outcomes: list[Outcome]) -> str:
    told = [f"{outcome.number:,} {escape(_short(outcome.reason))}" for outcome in outcomes if outcome.reason]
    rest = sum(outcome.number for outcome in outcomes[MOST_REASONS:])
    return "; ".join(told[:MOST_REASONS]) + (f"; {rest:,} for other reasons" if rest else "")


def _speed(summary: Summary) -> Table:
    table = _table("Speed", ">orders", ">orders/s", ">half within", ">95 %", ">99 %", ">all")
    for period in summary.periods:
        table.add_row(
            "rush" if period.rush else "quiet hour",
            f"{period.orders:,}",
            *_pace(period),
        )
    return table


def _pace(period: Period) -> list[str]:
    latencies = (period.median, period.p95, period.p99, period.most)
    return [_rate(period.orders, period.seconds), *map(_duration, latencies)]


def _loads(summary: Summary) -> Table:
    table = _table("Endpoint", ">messages handled", ">messages/s in the rush")
    for load in summary.loads:
        table.add_row(load.endpoint, f"{load.messages:,}", _rate(load.in_rush, load.seconds))
    return table


def _failures(summary: Summary) -> Table:
    table = _table("In the error queue", ">number", "message", "explanation")
    for failure in summary.failures:
        kind = escape(_short(failure.exception))
        explanation = escape(failure.explanation)
        table.add_row(f"[red]{kind}[/]", f"{failure.number:,}", _short(failure.message_type), explanation)
    return table


def _checks(summary: Summary) -> Table:
    table = _table("", "Reconciliation", ">checked")
    for check in summary.checks:
        verdict = "[green]PASS[/]" if check.passed else "[bold red]FAIL[/]"
        table.add_row(verdict, escape(check.title), f"{check.checked:,}")
        if not check.passed:
            table.add_row("", _complaint(check), "")
    return table


def _complaint(check: Check) -> str:
    example = f", for example: {escape(check.example)}" if check.example else ""
    return f"[red]{check.wrong:,} wrong{example}[/]"


def _asides(summary: Summary) -> str:
    """Tell what is not about single orders."""
    aside = summary.sidelines
    events, batches, behind = summary.books
    return (
        "Orders come one by one in the quiet hour and all at once in the rush, where they mostly wait in line. "
        f"{aside.retried:,} charges timed out and worked when retried at once; {aside.retried_later:,} found the bank "
        f"down and worked when retried a second later; {aside.put_back:,} ended in the error queue, and worked when "
        "put back, as the bank had been mended. "
        f"Of {aside.due:,} orders, {aside.reminded:,} were not paid when payment was due and got a reminder. "
        f"Of {aside.asked:,} questions about delivery, {aside.answered:,} were answered in time and "
        f"{aside.asked - aside.answered:,} expired in the queue, as nobody waited any more. "
        f"Bookkeeping has read {events:,} changes from the log in {batches:,} batches, half of them within "
        f"{_duration(behind)}." + _spark(summary)
    )


def _spark(summary: Summary) -> str:
    """Tell what Spark has made, and where it lies."""
    if summary.spark is None:
        return ""
    archive, report, seconds = summary.spark
    return (
        f"\nSpark has archived the log, replicated two tables and reported in {_duration(seconds)}.\n"
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
