"""How long to wait, as arithmetic.

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
    """Return the delay before the next try after so many failures in a row: first, twice that, … never above most."""
    return min(most, first * 2.0 ** min(failures - 1, 60))
