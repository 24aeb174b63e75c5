"""The decisions of an endpoint about messages before their handlers: how long one waits, and when to throttle.

Source: docs/wire-format.md#circuit-breaker.

Invariant: pure; the waiting, and the processing one at a time, are the caller's.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

_LONGEST_PAUSE: Final = timedelta(minutes=1)
_DOUBLINGS: Final = 6  # from a second to more than the longest pause


def pause_before(times: int) -> timedelta:
    """Return the pause of a message that was put back so many times: none at first, then 1 s, 2 s, … up to a minute."""
    if times == 0:
        return timedelta()
    return min(timedelta(seconds=2 ** min(times - 1, _DOUBLINGS)), _LONGEST_PAUSE)


class FailureStreak:
    """Counts failures in a row."""

    def __init__(self, after: int) -> None:
        """Begin without a failure; `after` so many in a row it is active."""
        self._after = after
        self._failures = 0

    @property
    def is_active(self) -> bool:
        """Whether there have been that many failures in a row."""
        return self._failures >= self._after

    def failed(self) -> bool:
        """Note a failure; true when it is the one that begins the throttling."""
        self._failures += 1
        return self._failures == self._after

    def succeeded(self) -> bool:
        """Note a success; true when it ends the throttling."""
        ends = self.is_active
        self._failures = 0
        return ends
