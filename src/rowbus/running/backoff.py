"""Delays: jitter, and doubling up to a limit.

Invariant: pure; randomness is injected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
