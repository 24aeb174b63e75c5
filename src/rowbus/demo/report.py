"""The summary as a few tables that fit a terminal of 80 columns.

Invariant: the last line is the verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import Console

    from rowbus.demo.summary import Check, Summary

TABLES = {"outcomes": "Orders", "periods": "Speed", "endpoints": "Endpoint", "failures": "In the error queue"}
_ASIDES = (
    "Orders come one by one in the quiet hour and all at once in the rush, where they mostly wait in line. "
    "{retried:,} charges timed out and worked when retried at once; {retried_later:,} found the bank down and worked "
    "when retried a second later; {put_back:,} ended in the error queue, and worked when put back, after the bank was "
    "mended. {due:,} orders had not ended when payment was due; {reminded:,} were not paid by then and got a reminder. "
    "Of {asked:,} questions about delivery, {answered:,} were answered in time; the others expired in the queue. "
    "Bookkeeping has read {events:,} changes from the log in {batches:,} batches, half of them within {behind:.1f} s."
)


def show(summary: Summary, console: Console) -> None:
    """Print the whole summary."""
    for name, title in TABLES.items():
        if rows := summary.figures[name]:
            console.print(_table(title, rows))
    console.print(_table("Reconciliation", map(_verdict, summary.checks)))
    console.print(_ASIDES.format(**summary.figures["sidelines"], **summary.figures["books"]), highlight=False)
    if summary.spark is not None:
        archive, report, seconds = map(str, summary.spark)
        console.print(f"Spark worked for {seconds:.4} s. Archive: {archive}\nReport: {report}", markup=False)
    failed = sum(not check.passed for check in summary.checks)
    checks = len(summary.checks)
    if failed:
        console.print(f"FAIL: {failed} of {checks} checks failed.", style="bold red", highlight=False)
    else:
        told = f"PASS: all {checks} checks hold for all {summary.lines:,} lines ({summary.seconds:.1f} s)."
        console.print(told, style="bold green", highlight=False)


def _verdict(check: Check) -> Mapping[str, object]:
    example = f", for example: {check.example}" if check.example else ""
    title = check.title if check.passed else f"{check.title}\n{check.wrong:,} wrong{example}"
    return {" ": "PASS" if check.passed else "FAIL", "check": title, "checked": check.checked}


def _table(title: str, rows: Iterable[Mapping[str, object]]) -> Table:
    """Make a table of rows with the same names; numbers are set flush right."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        if not table.columns:
            for name, value in row.items():
                table.add_column(
                    name.replace("_", " "), justify="right" if isinstance(value, int | float) else "left"
                )
        table.add_row(*map(_text, row.values()), style="red" if "FAIL" in row.values() else None)
    return table


def _text(value: object) -> str:
    """Return a count, a duration in seconds, a text, or nothing."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{1000 * value:,.0f} ms" if value < 1 else f"{value:.1f} s"
    return escape(str(value or ""))
