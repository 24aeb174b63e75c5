"""How often the parts of a look are taken: none may cost the database more than a small share of one session.

Invariant: pure; time is given.
"""

from __future__ import annotations

from typing import Final

SHARE: Final = 0.01
"""Of the time, at most, that one part keeps a session busy: what took 0.1 s is not looked at again for 10 s."""

LONGEST: Final = 60.0  # seconds until a part is looked at again, however long it took


class Pace:
    """When a part is due again: after its period, or later if it took long."""

    def __init__(self, period: float) -> None:
        """Take the period in seconds. It is due at once."""
        self._period = period
        self._due = float("-inf")

    def is_due(self, now: float) -> bool:
        """Say whether to look now."""
        return now >= self._due

    def took(self, seconds: float, now: float) -> None:
        """Note how long the part took, which ended now."""
        self._due = now + max(
            self._period * 0.9, min(seconds / SHARE, LONGEST)
        )  # a round may come a little early

    def hasten(self) -> None:
        """Have it due at once: something was changed on this page."""
        self._due = float("-inf")
