"""The lower bound of a receive, so that dead index entries at a queue's head are not read again and again.

While a session holds a snapshot open, the entries of consumed messages cannot be cleaned away, and a scan from the
start wades through all of them (docs/wire-format.md#receive). So a receiver begins a little below the last position
it saw. What it thereby misses, a message that was rolled back or committed late, a full look finds.

A look that hung in the network says nothing of what looks cost: of two in a row, the quicker one counts.

Where many receive from a queue, what they took since this receiver's last look is in their hands or gone, and a scan
would read all of it. So the next look begins beyond most of what they are likely to take until then (`Others`).

Invariant: a full look falls due again and again, about `RESERVE` of the time at most goes into full looks, and no
message stays below the bound for longer than that takes.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FROM_THE_START = -(2**31)  # the smallest int4: `seq` may be anything
HIGHEST = 2**31 - 1  # the largest
MARGIN = (
    16  # positions below the last one: cheap to read, and covers senders that commit slightly out of order
)
INTERVAL = 0.1  # seconds between full looks, when they are cheap
RESERVE = 0.05  # the share of time that full looks may take, when they are dear
FEW = 250  # positions that are cheaper to read than to pass over wrongly
PASSED_OVER = 0.75  # of what others are expected to take until the next look


class Others:
    """How many positions of a queue others take between two looks of one receiver."""

    def __init__(self) -> None:
        """Expect none."""
        self._last: int | None = None
        self._before = (0, 0)

    def looked(self, first: int, last: int) -> int:
        """Note what a look saw; return how many positions after its last one the next look may pass over.

        The median of three counts: one long pause says nothing of the next. None where others took few this time.
        """
        taken = 0 if self._last is None else first - self._last
        expected = statistics.median((taken, *self._before))
        self._last, self._before = last, (taken, self._before[0])
        return int(expected * PASSED_OVER) if min(taken, expected) >= FEW else 0


class LowerBound:
    """The bound one receiver uses for one queue; `clock` counts seconds and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin with a full look."""
        self._clock = clock
        self._bound = FROM_THE_START
        self._others = Others()
        self._ahead = 0  # positions above the bound that others have taken by now, presumably
        self._next_full_look = clock()
        self._last_cost = 0.0  # seconds that the full look before took

    @property
    def full_look_due(self) -> bool:
        """Whether the next look should be from the start."""
        return self._clock() >= self._next_full_look

    def value(self) -> int:
        """Return the bound for the next look: the start when a full look is due."""
        return FROM_THE_START if self.full_look_due else self._bound + self._ahead

    def claim(self) -> int:
        """Return the bound for the next look, and leave a full look that is due to this one alone."""
        bound = self.value()
        if bound == FROM_THE_START:
            self._next_full_look = self._clock() + INTERVAL
        return bound

    def looked(self, bound: int, started: float, seen: tuple[int, int] | None) -> None:
        """Note a look that used `bound` and began at `started`, and the first and the last position that it saw.

        After one that saw nothing, the next one passes nothing over.
        """
        if bound == FROM_THE_START:
            now = self._clock()
            cost, self._last_cost = min(now - started, self._last_cost), now - started
            self._next_full_look = now + max(INTERVAL, cost / RESERVE)
        self._ahead = 0
        if seen is not None:
            below = seen[1] - MARGIN
            self._bound = below if bound == FROM_THE_START else max(self._bound, below)
            self._ahead = max(0, min(self._others.looked(*seen), HIGHEST - self._bound))

    def returned(self, position: int) -> None:
        """Note that a message went back to its place."""
        self._bound, self._ahead = min(self._bound, position), 0
