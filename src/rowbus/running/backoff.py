"""Delays: jitter, doubling up to a limit, and looks for what arrives without a notification, ever less often.

Work comes in trains: a reply follows a command, the next order follows an order. A look at an empty table costs little,
so a few of them follow each piece of work; an idle program pays for none of them.

Invariants: pure; randomness is injected; it knows no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

JITTER = 0.2  # give or take a fifth


def jittered(seconds: float, random: Callable[[], float]) -> float:
    """Spread a delay over ±`JITTER`, so that instances started together do not poll together.

    `random` returns a number from 0 to 1.
    """
    return seconds * (1 - JITTER + 2 * JITTER * random())


def doubling(failures: int, *, first: float, most: float) -> float:
    """Return the delay after this many failures in a row: `first`, then twice as long each time, at most `most`."""
    return min(most, first * 2.0 ** min(failures - 1, 60))


FIRST_PAUSE: Final = 0.02  # seconds until the first look after work; doubled for each look in vain


class LookPauses:
    """How long to wait before each look: 20, 40, 80 … ms after work, up to `longest` seconds."""

    def __init__(self, longest: float) -> None:
        """Begin idle: look every `longest` seconds."""
        self._longest = longest
        self._last = longest

    def worked(self) -> bool:
        """Note that something was done; say whether the last pause, which may be under way, is too long now."""
        too_long = self._last > FIRST_PAUSE
        self._last = 0.0
        return too_long

    def following(self) -> float:
        """Return how long to wait before the next look."""
        self._last = min(self._longest, max(FIRST_PAUSE, 2 * self._last))
        return self._last
