"""Shows how far the shop is: a live bar on a terminal, a line a second elsewhere.

Invariant: looking costs little. However large the file, the database is asked no more often than it answers quickly.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from rowbus.demo.statements import ask

if TYPE_CHECKING:
    from rich.console import Console

    from rowbus.database.sessions import Session

LOOK_SECONDS = 0.1
LINE_SECONDS = 1.0
STEPS = 3
SHARE = 0.05  # most of the time that may go into looking


class Snapshot(NamedTuple):
    """How far the shop is, at one moment."""

    read: int = 0
    placed: int = 0
    paid: int = 0
    shipped: int = 0
    declined: int = 0
    rejected: int = 0
    failed: int = 0
    sales: int = 0
    billing: int = 0
    shipping: int = 0
    delayed: int = 0

    @property
    def done(self) -> int:
        """How many lines have come to an end."""
        return self.shipped + self.declined + self.rejected + self.failed

    @property
    def steps(self) -> int:
        """How many of the three steps of every order have been made: it is placed, it is paid, it is done."""
        return self.placed + 2 * self.paid + STEPS * self.done

    @property
    def waiting(self) -> int:
        """How many messages wait, for somebody or for their time, or are being handled."""
        return self.sales + self.billing + self.shipping + self.delayed

    @property
    def queues(self) -> str:
        """What waits where, in a few words."""
        return (
            f"waiting: Sales {self.sales:,}, Billing {self.billing:,}, Shipping {self.shipping:,}; "
            f"for later {self.delayed:,}"
        )

    def is_end(self, sent: int) -> bool:
        """Say whether all is done, now that so many lines have been sent; an older snapshot is never the end."""
        return self.read >= sent and self.waiting == 0

    def stages(self, total: int) -> str:
        """Say how far the orders are, in a few words."""
        return f"{self.done:,} of {total:,} done, {self.placed:,} placed, {self.paid:,} paid"


class Watch:
    """Looks at the database now and then, and shows what it saw."""

    def __init__(self, session: Session, display: Display) -> None:
        """Look through this session."""
        self._session = session
        self._display = display
        self._next = 0.0
        self.last = Snapshot()
        self.changed = time.monotonic()

    def look(self) -> Snapshot:
        """Return how far the shop is: a fresh look if it is time for one, else the last."""
        now = time.monotonic()
        if now >= self._next:
            (seen,) = ask(self._session, "progress", Snapshot._make)
            self._next = now + max(LOOK_SECONDS, (time.monotonic() - now) / SHARE)
            if seen != self.last:
                self.last, self.changed = seen, now
            self._display.show(seen)
        return self.last

    def forget(self) -> None:
        """Have the next look be a fresh one: there is something to do again that the last cannot have seen."""
        self._next, self.changed = 0.0, time.monotonic()

    @property
    def still_for(self) -> float:
        """For how many seconds nothing has changed."""
        return time.monotonic() - self.changed


class Display:
    """Shows snapshots as lines of text, one a second."""

    def __init__(self, console: Console, total: int) -> None:
        """Show on a console how many of `total` lines are done."""
        self._console = console
        self._total = total
        self._began = time.monotonic()
        self._next = self._began + LINE_SECONDS

    def show(self, seen: Snapshot) -> None:
        """Show where the shop is."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + LINE_SECONDS
            seconds = now - self._began
            self._console.print(
                f"{seconds:4.0f} s  {seen.stages(self._total)}; {seen.queues}", soft_wrap=True
            )


class LiveDisplay(Display):
    """Shows snapshots as a bar that moves."""

    def __init__(self, console: Console, total: int, bar: Progress) -> None:
        """Show on a bar that somebody else starts and stops."""
        super().__init__(console, total)
        self._bar = bar
        self._task = bar.add_task("", total=STEPS * total, stages="", queues="")

    def show(self, seen: Snapshot) -> None:
        """Move the bar."""
        self._bar.update(
            self._task, completed=seen.steps, stages=seen.stages(self._total), queues=seen.queues
        )
        self._bar.refresh()


@contextmanager
def display(console: Console, total: int) -> Generator[Display]:
    """Give what shows snapshots on this console."""
    if not console.is_terminal:
        yield Display(console, total)
        return
    columns = (
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[stages]}\n[dim]{task.fields[queues]}[/]"),
    )
    # No thread that refreshes: this program starts processes, and is interrupted, best without threads.
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as bar:
        yield LiveDisplay(console, total, bar)
