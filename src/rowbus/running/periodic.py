"""Periodic work of an endpoint that runs, such as deleting what has expired: nothing waits for it.

Invariant: a failure harms nothing before the work is tried again.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from typing import TYPE_CHECKING

from rowbus.running.backoff import jittered
from rowbus.running.service import Service

if TYPE_CHECKING:
    from rowbus.running.reported_breaker import ReportedBreaker


class Periodic(Service):
    """Does its work every so many seconds, give or take a fifth. For one event loop."""

    def __init__(self, name: str, outages: ReportedBreaker, seconds: float, *, at_once: bool) -> None:
        """Take the period; `at_once`: the first time is at the start, not a period later. No I/O."""
        super().__init__(name, outages)
        self._seconds = seconds
        self._is_due = at_once

    @abstractmethod
    async def do(self) -> None:
        """Do the work once."""

    async def work(self) -> None:
        """Do the work if it is due, then wait for the next time."""
        if self._is_due:
            await self.do()
            self._outages.succeeded()
        self._is_due = True
        await self.pause(jittered(self._seconds, random.random))
