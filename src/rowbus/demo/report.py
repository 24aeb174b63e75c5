"""The report of a run: a line a second while it lasts, then its figures and its checks, as a few tables.

A check counts what it looked at and what is wrong with it. The statements in `sql/checks/` can be run in psql.

Invariants: the last line is the verdict. Every figure comes from what the endpoints committed and from the database's
clock. A check that looked at nothing proves nothing, and shows it. Looking costs little. However large the file, the
database is asked no more often than it answers quickly.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rich import box
from rich.markup import escape
from rich.table import Table

from rowbus.demo.messages import BANK_IS_ASKED_AGAIN_AFTER, ESTIMATE_IS_WANTED_FOR, PAYMENT_IS_DUE_AFTER
from rowbus.demo.statements import ask

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import Console

    from rowbus.database.sessions import Session

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


class Check(NamedTuple):
    """The result of one check: the number of things looked at, of those that are wrong, and an example of one."""

    name: str
    title: str
    checked: int
    wrong: int
    example: str | None

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return self.wrong == 0


class Analysis(NamedTuple):
    """Where the results of Analytics lie, and how many seconds it took."""

    archive: str
    report: str
    seconds: float


@dataclass(frozen=True)
class Summary:
    """The lines of the file, the seconds of the run, its figures (`sql/summary.sql` says which) and its checks."""

    lines: int
    seconds: float
    figures: dict[str, Any]
    spark: Analysis | None
    checks: list[Check]

    @property
    def passed(self) -> bool:
        """Whether every check has."""
        return all(check.passed for check in self.checks)

    def as_json(self) -> dict[str, object]:
        """Return the summary as what json.dumps takes."""
        tables = {name: rows for name, rows in self.figures.items() if name != "sidelines"}
        return {
            "passed": self.passed,
            "lines": self.lines,
            "seconds": round(self.seconds, 3),
            **tables,
            **self.figures["sidelines"],
            "spark": None if self.spark is None else self.spark._asdict(),
            "checks": [{**check._asdict(), "passed": check.passed} for check in self.checks],
        }


def summarize(session: Session, *, lines: int, seconds: float, spark: Analysis | None) -> Summary:
    """Reconcile, and ask for the figures; `seconds` is how long the whole run took, `spark` what Spark has made."""
    ((figures,),) = ask(session, "summary")
    checks = reconcile(session, lines=lines, with_spark=spark is not None)
    return Summary(lines, seconds, json.loads(figures), spark, checks)


def reconcile(session: Session, *, lines: int, with_spark: bool = False) -> list[Check]:
    """Run all checks, for a file of so many lines; call it when nothing changes any more."""
    parameters = {
        "lines": lines,
        "wanted_for": ESTIMATE_IS_WANTED_FOR,
        "due_after": PAYMENT_IS_DUE_AFTER,
        "again_after": BANK_IS_ASKED_AGAIN_AFTER,
    }
    names = ("orders", "messages", "spark") if with_spark else ("orders", "messages")
    return [
        Check(*found) for name in names for _place, *found in ask(session, f"checks/{name}", **parameters)
    ]


LOOK_SECONDS = 0.1
LINE_SECONDS = 1.0
SHARE = 0.05  # most of the time that may go into looking


class Snapshot(NamedTuple):
    """The lines that were read, the orders in each state, and the messages in each queue, at one moment."""

    read: int = 0
    placed: int = 0
    paid: int = 0
    done: int = 0
    sales: int = 0
    billing: int = 0
    shipping: int = 0
    delayed: int = 0

    def is_end(self, sent: int) -> bool:
        """Say whether all is done, now that so many lines have been sent; an older snapshot is never the end."""
        return self.read >= sent and self.sales + self.billing + self.shipping + self.delayed == 0


class Watch:
    """Looks at the database now and then, and shows what it saw."""

    def __init__(self, session: Session, console: Console, total: int) -> None:
        """Look through this session; show on this console how many of so many lines are done."""
        self._session = session
        self._console = console
        self._total = total
        self._began = self._changed = time.monotonic()
        self._next, self._next_line = 0.0, self._began + LINE_SECONDS
        self._last = Snapshot()

    def look(self) -> Snapshot:
        """Return how far the shop is: a fresh look if it is time for one, else the last."""
        now = time.monotonic()
        if now >= self._next:
            seen = Snapshot(*ask(self._session, "progress")[0])
            self._next = now + max(LOOK_SECONDS, (time.monotonic() - now) / SHARE)
            if seen != self._last:
                self._last, self._changed = seen, now
            self._show(seen, now)
        return self._last

    def forget(self) -> None:
        """Have the next look be a fresh one: there is work again that the last look cannot have seen."""
        self._next, self._changed = 0.0, time.monotonic()

    @property
    def still_for(self) -> float:
        """For how many seconds nothing has changed."""
        return time.monotonic() - self._changed

    def _show(self, seen: Snapshot, now: float) -> None:
        if now >= self._next_line:
            self._next_line = now + LINE_SECONDS
            self._console.print(
                f"{now - self._began:4.0f} s  {seen.done:,} of {self._total:,} done, {seen.placed:,} placed, "
                f"{seen.paid:,} paid; waiting: Sales {seen.sales:,}, Billing {seen.billing:,}, "
                f"Shipping {seen.shipping:,}; for later {seen.delayed:,}",
                soft_wrap=True,
            )
