"""How the time of a measurement is shared out.

Invariant: `planned` and `share_of` are pure; each part gets some of any time.
"""

from __future__ import annotations

import time
from typing import Final

SHORTEST: Final = 0.05  # seconds for one part, if there is no time left
MEASURED: Final = (
    0.5  # of a part's time; the rest is for connections, filling, and the small measurement before
)


def planned(rate: float, seconds: float, least: int, most: int) -> int:
    """Return how many messages to measure with for so many seconds, at a rate that was seen."""
    return max(least, min(int(rate * seconds), most))


def share_of(left: float, parts: int) -> float:
    """Return how many seconds of those left the next of so many parts counts for."""
    return max(SHORTEST, left / max(parts, 1) * MEASURED)


class Budget:
    """The seconds of a whole measurement. What one part leaves, the others have."""

    def __init__(self, seconds: float, parts: int) -> None:
        """Begin now."""
        self._until = time.perf_counter() + seconds
        self._parts = parts

    def share(self) -> float:
        """Return how many seconds the next part counts for."""
        parts, self._parts = self._parts, self._parts - 1
        return share_of(self._until - time.perf_counter(), parts)
