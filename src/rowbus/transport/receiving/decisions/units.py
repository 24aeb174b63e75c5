"""How many messages a slot receives in one transaction, where the endpoint leaves that to it.

A unit doubles while messages wait and handlers are quick, and is small again where that would make a message wait for
others: at rest, after a failure, beside slow handlers.

Invariant: pure; who calls it measures, and nothing that is handled changes by the size of its unit but when it commits.
"""

from __future__ import annotations

from typing import Final, Literal

LARGEST: Final = 100
"""Messages of the largest unit."""

LONGEST = 0.010
"""Seconds that the handlers of a unit are to take together, at most."""


class Unit:
    """The size of a slot's next unit, always `least` or `most` or between them."""

    def __init__(self, least: int, most: int) -> None:
        """Begin small."""
        self.size = self._least = least
        self._most = most

    @classmethod
    def of(cls, batch_size: int | Literal["auto"]) -> Unit:
        """Return the first unit of an endpoint with this setting: a number is the size of all."""
        return cls(1, LARGEST) if batch_size == "auto" else cls(batch_size, batch_size)

    def handled(self, count: int, seconds: float) -> None:
        """Note that so many messages were received at a time, and all handled well, in so many seconds."""
        wanted = 2 * self.size if count >= self.size else count
        fitting = int(LONGEST * count / seconds) if seconds > 0 else self._most
        self.size = max(self._least, min(wanted, fitting, self._most))

    def begin_anew(self) -> None:
        """Note that nothing waits, or that something failed."""
        self.size = self._least
