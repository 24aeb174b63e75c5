"""When messages that found no place come again: one key's share of a process's attention.

A key has a line, in which those that wait come again one pace apart. The pace is found by trying: it doubles when one
that waited finds no place, and halves when it finds one. So about every second one that comes again is handled, however
long handlers take and however many processes there are, and no place stays free for long.

Invariant: pure bookkeeping; the pace is always `SHORTEST` or `LONGEST` or between them; only lines that are in use are
remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SHORTEST: Final = 0.001
LONGEST: Final = 1.0
"""Seconds between two of a key that come again in one process."""
FARTHEST: Final = 600.0
"""Seconds for which a message waits, at most, until its limit is looked at again."""
KEPT: Final = 10_000
"""Lines that are remembered."""


class Line:
    """The line of one key."""

    pace: float = SHORTEST
    ends: float = 0.0


class Returns:
    """The lines of one process; `clock` counts seconds and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin with none."""
        self._clock = clock
        self._lines: dict[str, Line] = {}

    def found(self, key: str) -> None:
        """Note that one that had waited found a place."""
        if (line := self._lines.get(key)) is not None:
            line.pace = max(line.pace / 2, SHORTEST)

    def lacked(self, key: str) -> None:
        """Note that one that had waited found none."""
        line = self._line(key)
        line.pace = min(line.pace * 2, LONGEST)

    def wait(self, key: str) -> float:
        """Join the line; return in how many seconds to come again."""
        line, now = self._line(key), self._clock()
        line.ends = min(max(line.ends, now) + line.pace, now + FARTHEST)
        return line.ends - now

    def _line(self, key: str) -> Line:
        line = self._lines.pop(key, None) or Line()
        self._lines[key] = line  # the last used is the last to be forgotten
        if len(self._lines) > KEPT:
            del self._lines[next(iter(self._lines))]
        return line
