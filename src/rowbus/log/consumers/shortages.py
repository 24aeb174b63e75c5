"""Events whose handler finds the server short of something (disk, memory, connections): for how long that is no fault.

A batch is delivered again as long as its server is short. An event that still finds it short after `PATIENCE` asks for
too much: it has failed. If the server is short indeed, its verdict cannot be committed either, and nothing is counted.

Invariant: pure; only the event that was met last is remembered, because a batch is handled in order.
"""

from __future__ import annotations

from typing import Final

PATIENCE: Final = 60.0
"""Seconds for which a shortage is the server's fault."""


class Shortages:
    """The shortages that one worker's handlers met."""

    def __init__(self) -> None:
        """Know of none."""
        self._event: int | None = None
        self._since = 0.0

    def is_to_blame(self, event: int, now: float) -> bool:
        """Note that an event's handler met a shortage; say whether it has done so for too long."""
        if event != self._event:
            self._event, self._since = event, now
        return now - self._since > PATIENCE
