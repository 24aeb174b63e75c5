"""The lower bound of a receive, so that dead index entries at a queue's head are not read again and again.

While a session holds a snapshot open, the entries of consumed messages cannot be cleaned away, and a scan from the
start wades through all of them (docs/wire-format.md#receive). So a receiver begins a little below the last position
it saw. What it thereby misses, a message that was rolled back or committed late, a full look finds.

Dear full looks come less often. A look that hung, in the network or behind a lock, says nothing of what looks cost. So
of two in a row the quicker one counts, and of several beside each other, which hang together, the one that ended first.

Invariant: a full look falls due `LONGEST_INTERVAL` after the one before at the latest, whatever looks cost, and no
message stays below the bound for longer than that. While full looks take less than half a second, `RESERVE` of the time
at most goes into them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FROM_THE_START = -(2**31)  # the smallest int4: `seq` may be anything
MARGIN = (
    16  # positions below the last one: cheap to read, and covers senders that commit slightly out of order
)
INTERVAL = 0.1  # seconds between full looks, when they are cheap
LONGEST_INTERVAL = 10.0  # when they are dear, or seemed so: what they find has waited long enough by then
RESERVE = 0.05  # the share of time that full looks may take between these two


class LowerBound:
    """The bound one receiver uses for one queue; `clock` counts seconds and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin with a full look."""
        self._clock = clock
        self._bound = FROM_THE_START
        self._interval = INTERVAL
        self._next_full_look = self._last_end = clock()
        self._last_cost = 0.0  # seconds that the full look before took

    @property
    def full_look_due(self) -> bool:
        """Whether the next look should be from the start."""
        return self._clock() >= self._next_full_look

    def value(self) -> int:
        """Return the bound for the next look: the start when a full look is due."""
        return FROM_THE_START if self.full_look_due else self._bound

    def claim(self) -> int:
        """Return the bound for the next look, and leave a full look that is due to this one alone."""
        bound = self.value()
        if bound == FROM_THE_START:
            self._next_full_look = self._clock() + self._interval
        return bound

    def looked(self, bound: int, started: float, last: int | None) -> None:
        """Note a look that used `bound` and began at `started`, and the last position that it saw, if any."""
        if bound == FROM_THE_START:
            self._note_cost(started)
        if last is not None:
            below = last - MARGIN
            self._bound = below if bound == FROM_THE_START else max(self._bound, below)

    def returned(self, position: int) -> None:
        """Note that a message went back to its place."""
        self._bound = min(self._bound, position)

    def _note_cost(self, started: float) -> None:
        """Note a full look that ends now, unless it began beside the last one that counted."""
        if started < self._last_end:
            return
        now = self._clock()
        cost, self._last_cost = min(now - started, self._last_cost), now - started
        self._interval = min(max(INTERVAL, cost / RESERVE), LONGEST_INTERVAL)
        self._next_full_look, self._last_end = now + self._interval, now
