"""The last hour of a figure, in memory: for sparklines.

Invariant: a series never holds more than an hour; a point stands for `STEP` seconds, and is the highest value of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Final

STEP: Final = 30.0  # seconds
POINTS: Final = 120  # an hour of them


class History:
    """Series by key, such as the depth of a queue; one that is no longer fed is forgotten after an hour."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._series: dict[Hashable, deque[tuple[int, float]]] = {}

    def note(self, key: Hashable, value: float | None, now: float) -> None:
        """Note a value at a time in seconds, of any clock that only goes forward."""
        if value is None:
            return
        series = self._series.setdefault(key, deque(maxlen=POINTS))
        step = int(now // STEP)
        if series and series[-1][0] == step:
            value = max(value, series.pop()[1])
        series.append((step, value))

    def series(self, key: Hashable, now: float) -> list[float | None]:
        """Return the last hour, a value a step, the oldest first; None where nothing was noted."""
        found = dict(self._series.get(key, ()))
        last = int(now // STEP)
        return [found.get(step) for step in range(last - POINTS + 1, last + 1)]

    def forget_old(self, now: float) -> None:
        """Drop the series whose last point is older than an hour."""
        first = int(now // STEP) - POINTS
        for key in [key for key, series in self._series.items() if series[-1][0] <= first]:
            del self._series[key]
