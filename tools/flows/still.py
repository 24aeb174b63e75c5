"""An event loop whose time stands still, so that a run is the same each time.

Services look for work by the clock. On this loop no timer ends before somebody passes time: looks that find nothing,
signs of life and all else that happens by the way stay out of what is between a message and its effect.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

QUIET = 0.1  # seconds within which a server that is asked something answers
LOOK = 0.025  # seconds between two looks whether that long nothing came


class StillLoop(asyncio.SelectorEventLoop):
    """An event loop that passes time only when it is told to."""

    def __init__(self) -> None:
        """Begin at zero."""
        self._now = 0.0
        self._resting: asyncio.Future[None] | None = None
        self._moved = time.monotonic()
        super().__init__()

    def time(self) -> float:
        """Return the time, as far as it has passed."""
        return self._now

    def pass_time(self, seconds: float) -> None:
        """Let the timers of so many seconds end."""
        self._now += seconds

    async def rest(self) -> None:
        """Wait until nothing is under way: no task is to run, and no answer has come for a while."""
        self._moved = time.monotonic()
        self._resting = self.create_future()
        look = self.call_later(LOOK, int)  # a wait for events lasts no longer than until the next timer
        try:
            await self._resting
        finally:
            look.cancel()

    def _process_events(self, event_list: Sequence[Any]) -> None:
        """See whether something has come; the loop calls this each time after it has waited for events."""
        super()._process_events(event_list)  # type: ignore[misc]  # asyncio's own, which has no types
        if self._ready:  # type: ignore[attr-defined]  # as above
            self._moved = time.monotonic()
        elif self._resting is not None and time.monotonic() - self._moved > QUIET:
            self._resting.set_result(None)
            self._resting = None
