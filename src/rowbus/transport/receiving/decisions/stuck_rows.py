"""Rows that cannot be dealt with: how often that was tried, and which are passed over for a while.

A row counts here when completing it failed through no outage and not by its handler, for example because the error
queue refuses its copy. After `ATTEMPTS` it is set aside; where even that fails it stays where it is and is passed over,
longer each time, so that what waits behind it goes on.

Invariant: bounded, and nothing is passed over for ever. Counts are this process's: they begin anew when it restarts.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.running.backoff import doubling

if TYPE_CHECKING:
    from collections.abc import Callable

ATTEMPTS: Final = 3
FIRST_PAUSE: Final = 5.0  # seconds for which a row is passed over the first time; doubled each time
LONGEST_PAUSE: Final = 600.0
CAPACITY: Final = 1000


class _Row(NamedTuple):
    failures: int = 0
    pauses: int = 0
    until: float = 0.0


class StuckRows:
    """The stuck rows of one queue, by position; `clock` counts seconds and never goes back."""

    def __init__(self, clock: Callable[[], float], capacity: int = CAPACITY) -> None:
        """Know of none; remember at most so many."""
        self._clock = clock
        self._capacity = capacity
        self._rows: OrderedDict[int, _Row] = OrderedDict()

    def failed(self, position: int) -> bool:
        """Count one more failure; true when the row is to be set aside."""
        row = self._rows.get(position, _Row())
        self._remember(position, row._replace(failures=row.failures + 1))
        return row.failures + 1 >= ATTEMPTS

    def pass_over(self, position: int) -> float:
        """Have the row passed over for a while from now, and return for how many seconds."""
        row = self._rows.get(position, _Row())
        pause = doubling(row.pauses + 1, first=FIRST_PAUSE, most=LONGEST_PAUSE)
        self._remember(position, row._replace(pauses=row.pauses + 1, until=self._clock() + pause))
        return pause

    def hold_back(self, position: int, seconds: float) -> None:
        """Have the row passed over for so long, though it is not stuck."""
        row = self._rows.get(position, _Row())
        self._remember(position, row._replace(until=max(row.until, self._clock() + seconds)))

    def release(self, position: int) -> None:
        """End what `hold_back` or `pass_over` began."""
        row = self._rows.get(position)
        if row is not None and row.failures:
            self._rows[position] = row._replace(until=0.0)
        else:
            self.forget(position)

    def passed_over(self) -> list[int]:
        """Return the positions that are passed over now."""
        now = self._clock()
        return [position for position, row in self._rows.items() if row.until > now]

    def forget(self, position: int) -> None:
        """Forget a row: it has been dealt with."""
        self._rows.pop(position, None)

    def __len__(self) -> int:
        """Return how many rows are known."""
        return len(self._rows)

    def _remember(self, position: int, row: _Row) -> None:
        self._rows[position] = row
        self._rows.move_to_end(position)
        if len(self._rows) > self._capacity:
            self._rows.popitem(last=False)
