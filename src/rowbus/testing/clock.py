"""A clock that a test sets.

Invariant: it never goes back, and never by itself.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """A clock that goes only when told to. Calling it gives seconds, `now` the time of day."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        """Stand at `start`, a datetime with a time zone, and at 0 seconds."""
        self._start = start
        self._seconds = 0.0

    def __call__(self) -> float:
        """Return the seconds since the start, as `time.monotonic` would."""
        return self._seconds

    def now(self) -> datetime:
        """Return the time of day, aware."""
        return self._start + timedelta(seconds=self._seconds)

    def advance(self, seconds: float) -> None:
        """Let so many seconds go by; raises ValueError for less than none."""
        if seconds < 0:
            raise ValueError(f"A clock cannot go back {-seconds} s.")
        self._seconds += seconds
