"""Rounds of receiving: how many receives may be under way, and when to stop and peek again.

A round ramps up instead of firing `concurrency` deletes at an estimate: one receive first, and with every message
found, twice as many may follow. The first receive that finds nothing ends the round, so competing instances cost
each other one empty receive each, not a storm (docs/wire-format.md#receive).

Invariant: pure bookkeeping; it never waits and knows no clock.
"""

from __future__ import annotations


class Round:
    """One round: at most `records` messages (None: no bound), at most `concurrency` receives at a time."""

    def __init__(self, *, concurrency: int, records: int | None = None) -> None:
        """Begin a round in which one receive may start."""
        self._concurrency = concurrency
        self._left = records
        self._allowed = 1
        self.receiving = 0
        self._travelling = 0  # of these, how many begin with the commit of what was handled before
        self.received = 0
        self.ended = False

    def try_start(self, most: int = 1) -> int:
        """Return how many messages a receive started now may ask for, up to `most`; 0 when it may not start."""
        if self.ended or self.receiving >= self._allowed:
            return 0
        granted = most if self._left is None else min(most, self._left)
        if granted <= 0:
            return 0
        self.receiving += 1
        if self._left is not None:
            self._left -= granted
        return granted

    def try_travel(self, most: int = 1) -> int:
        """Return the same for a receive that travels with a commit, which may have to wait for anything."""
        granted = self.try_start(most)
        self._travelling += granted > 0
        return granted

    def arrived(self, found: int) -> None:
        """Note what a receive that travelled found."""
        self._travelling -= 1
        self.finished(found)

    def finished(self, found: int) -> None:
        """Note what a receive found; nothing ends the round."""
        self.receiving -= 1
        self.received += found
        if found:
            self._allowed = min(self._allowed * 2, self._concurrency)
        else:
            self.ended = True

    def abandon(self) -> None:
        """End the round because a receive failed or the endpoint stops."""
        self.ended = True

    @property
    def over(self) -> bool:
        """Whether no receive is under way and none may start: time to peek."""
        return self.receiving == 0 and self._is_ending

    @property
    def only_travels(self) -> bool:
        """Whether all it waits for are receives whose commits have not come through."""
        return self.receiving == self._travelling and self._is_ending

    @property
    def _is_ending(self) -> bool:
        return self.ended or self._left == 0
