"""How long handlers took, counted by steps that grow: what can be added up over processes, minutes and hours.

Invariant: pure; what is read off is at most `STEP` times too long or too short.
"""

from __future__ import annotations

from math import ceil, log
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

SHORTEST: Final = 0.001
"""Seconds; what is shorter counts as this."""

STEP: Final = 2**0.5
STEPS: Final = 46
"""As many counts: the last begins above an hour and a half."""

_WIDTH: Final = log(STEP)


def step_of(seconds: float) -> int:
    """Return in which count a duration is."""
    if seconds <= SHORTEST:
        return 0
    return min(ceil(log(seconds / SHORTEST) / _WIDTH), STEPS - 1)


def quantile(counts: Sequence[int], share: float) -> float | None:
    """Return what this share of the durations did not exceed, in seconds; None where there is none."""
    wanted, passed = share * sum(counts), 0
    for step, count in enumerate(counts):
        passed += count
        if count and passed >= wanted:
            return SHORTEST * STEP**step
    return None
