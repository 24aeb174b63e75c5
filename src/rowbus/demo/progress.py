"""Progress of the shop: a line a second.

Invariant: looking costs little. However large the file, the database is asked no more often than it answers quickly.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from rowbus.demo.statements import ask

if TYPE_CHECKING:
    from rich.console import Console

    from rowbus.database.sessions import Session

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
