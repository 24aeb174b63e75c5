"""The streak of failures that throttles an endpoint: so many in a row, until a success.

Source: docs/wire-format.md#circuit-breaker.

Invariant: pure; the waiting, and the processing one at a time, are the caller's.
"""

from __future__ import annotations


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
