"""The one task that looks at the database, for all visitors, and remembers the last hour of it.

It starts with the first request if nothing started it before: mounted applications are not told of a start.

Invariants: one session looks for all visitors; requests read the latest snapshot and wait for none but the first; a
series never holds more than an hour; a point stands for `STEP` seconds, and is the highest value of them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Hashable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rowbus.errors import RowbusError
from rowbus.running.waiting import cancel, pause
from rowbus.web.sampling.look import Look
from rowbus.web.sampling.recorder import Recorder
from rowbus.web.sampling.snapshot import Snapshot

if TYPE_CHECKING:
    from rowbus.web.site import Site

STEP: Final = 30.0  # seconds
POINTS: Final = 120  # an hour of them


class History:
    """Series by key, such as the depth of a queue; one that is no longer fed is forgotten after an hour."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._series: dict[Hashable, deque[tuple[int, float]]] = {}

    def note(self, key: Hashable, value: float | None, now: float) -> None:
        """Note a value at a time in seconds, of any clock that only goes forward."""
        if value is None:
            return
        series = self._series.setdefault(key, deque(maxlen=POINTS))
        step = int(now // STEP)
        if series and series[-1][0] == step:
            value = max(value, series.pop()[1])
        series.append((step, value))

    def series(self, key: Hashable, now: float) -> list[float | None]:
        """Return the last hour, a value a step, the oldest first; None where nothing was noted."""
        found = dict(self._series.get(key, ()))
        last = int(now // STEP)
        return [found.get(step) for step in range(last - POINTS + 1, last + 1)]

    def forget_old(self, now: float) -> None:
        """Drop the series whose last point is older than an hour."""
        first = int(now // STEP) - POINTS
        for key in [key for key, series in self._series.items() if series[-1][0] <= first]:
            del self._series[key]


FIRST_LOOK: Final = 10.0  # seconds that a request waits for the first snapshot
SECOND_LOOK: Final = 2.0  # seconds between the first two


class Sampler:
    """Has `snapshot`, the latest, `history`, and the `recorder` of what is kept of it, where something is."""

    def __init__(self, site: Site) -> None:
        """Take the site. No I/O."""
        self._site = site
        self._look = Look(site.addresses, is_postgresql=site.database.has_logs, period=site.settings.period)
        self._task: asyncio.Task[None] | None = None
        self._looked = asyncio.Event()
        self._hurry = asyncio.Event()
        self.snapshot = Snapshot()
        self.history = History()
        writes = site.settings.history and not site.settings.read_only
        self.recorder = Recorder(site.addresses, writes=writes) if site.database.has_logs else None

    async def start(self) -> None:
        """Begin to look, unless it has; wait for the first look, for 10 s at most."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="rowbus web: looks")
        if not self._looked.is_set():
            await pause(self._looked, FIRST_LOOK)

    async def stop(self) -> None:
        """End, without waiting for a look that is under way: it ends in its thread, and is forgotten."""
        task, self._task = self._task, None
        if task is not None:
            await cancel([task])

    def hasten(self) -> None:
        """Look again now, at everything: something was changed."""
        self._look.hasten()
        self._hurry.set()

    async def look(self) -> None:
        """Look once. A failure is in the snapshot."""
        try:
            self.snapshot = await self._site.read(self._look.take, self.snapshot)
        except RowbusError as error:
            self._site.outage.failed(error)
            self.snapshot = replace(
                self.snapshot, at=self.snapshot.at or datetime.now(UTC), trouble=str(error)
            )
        else:
            self._site.outage.succeeded()
            self._note(time.monotonic())
            await self._record(time.time())
        self._looked.set()

    async def _record(self, now: float) -> None:
        if self.recorder is not None and self.recorder.is_due(now):
            reach = self._site.write if self.recorder.writes else self._site.read
            await reach(self.recorder.take, self.snapshot, now)

    async def _run(self) -> None:
        await self.look()
        await self._pause(min(SECOND_LOOK, self._site.settings.period))
        self._look.hasten()  # there are no rates before the second look
        while True:
            await self.look()
            await self._pause(self._site.settings.period)

    async def _pause(self, seconds: float) -> None:
        await pause(self._hurry, seconds)
        self._hurry.clear()

    def _note(self, now: float) -> None:
        for queue in self.snapshot.queues:
            self.history.note(("depth", queue.address), queue.depth, now)
            self.history.note(("in", queue.address), queue.rate_in, now)
            self.history.note(("out", queue.address), queue.rate_out, now)
        for consumer in self.snapshot.consumers:
            self.history.note(("pending", consumer.log, consumer.consumer), consumer.pending, now)
        self.history.forget_old(now)
