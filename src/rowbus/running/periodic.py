"""Work that is done now and then as long as an endpoint runs, and that nobody waits for.

Invariant: what goes wrong is of no consequence until the next time; `stop` leaves nothing running.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod

from rowbus.running.backoff import jittered
from rowbus.running.waiting import cancel


class Periodic(ABC):
    """Does its work every so many seconds, give or take a fifth. For one event loop."""

    def __init__(self, name: str, seconds: float, *, at_once: bool) -> None:
        """Take the name of the task; `at_once`: the first time is at the start, not a period later. No I/O."""
        self._name = name
        self._seconds = seconds
        self._at_once = at_once
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; returns at once."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """End; a transaction that is under way is rolled back."""
        if self._task is not None:
            await cancel([self._task])
            self._task = None

    @abstractmethod
    async def work(self) -> None:
        """Do the work once; raises nothing that may happen."""

    async def _run(self) -> None:
        if self._at_once:
            await self.work()
        while True:
            await asyncio.sleep(jittered(self._seconds, random.random))
            await self.work()
