"""The one task that looks at the database, for all visitors, and remembers the last hour of it.

It starts with the first request if nothing started it before: mounted applications are not told of a start. Once a
minute the page notes its looks, for hours and weeks, in the table `Rowbus.History`.

Invariants: one session looks for all visitors; requests read the latest snapshot and wait for none but the first. A
series of the last hour never holds more than that; a point stands for `STEP` seconds, and is the highest value of them.
A minute's counts are those since this page's last note, so the first minute of a page has none; what cannot be noted is
shown all the same, and said once in the log; the charts of the overview are those of the last note.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Hashable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rowbus.database.statements import BlockingSession, run_now
from rowbus.errors import PermissionDeniedError, RowbusError
from rowbus.log.diagnosis import consumers_with_lanes
from rowbus.running.critical import Outage
from rowbus.running.waiting import cancel, pause
from rowbus.transport.history.table import Point, Series, Span, history_table
from rowbus.transport.queues.catalog.looking import is_there
from rowbus.transport.queues.installer import make_table
from rowbus.transport.queues.traffic import Kind
from rowbus.web.sampling.look import Look
from rowbus.web.sampling.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.web.sampling.snapshot import Counters, QueueFigures
    from rowbus.web.site import Site

QUEUE: Final = "queue"
CONSUMER: Final = "consumer"
ALL_QUEUES, ALL_FAILED, ALL_LOGS = (Series(kind, "") for kind in ("queues", "failed", "logs"))

MOST: Final = 1_000
"""Series that are noted, at most: the queues and consumers with most before them."""

STEP: Final = 30.0  # seconds
POINTS: Final = 120  # an hour of them
FIRST_LOOK: Final = 10.0  # seconds that a request waits for the first snapshot
SECOND_LOOK: Final = 2.0  # seconds between the first two

GRANT: Final = ". `rowbus schema grants --web --role ROLE` prints what the owner is to run"

Past = dict[Series, list[Point | None]]


def consumer_name(log: str, consumer: str) -> str:
    """Return the name of a consumer's series."""
    return f"{log}/{consumer}"


def points_of(snapshot: Snapshot, before: dict[QueueAddress, Counters]) -> dict[Series, Point]:
    """Return how everything stands, and what was counted since. Pure."""
    ordinary = [queue for queue in snapshot.queues if queue.kind is Kind.QUEUE]
    found = {Series(QUEUE, str(queue.address)): _point(queue, before) for queue in snapshot.queues}
    found |= {
        Series(CONSUMER, consumer_name(one.log, one.consumer)): Point(
            depth=one.pending,
            failed=one.dead_letters,
            lag=None if one.lag is None else one.lag.total_seconds(),
        )
        for together in consumers_with_lanes(snapshot.consumers)
        for one in (together.state, *together.lanes)
    }
    wanted = sorted(found, key=lambda series: -(found[series].depth or 0))[:MOST]
    totals = {ALL_QUEUES: _sum(ordinary, before), ALL_FAILED: _sum(snapshot.error_queues(), before)}
    if lags := [one.lag.total_seconds() for one in snapshot.consumers if one.lag is not None]:
        totals[ALL_LOGS] = Point(lag=max(lags))
    return totals | {series: found[series] for series in wanted}


class Recorder:
    """Notes, if it `writes`, and remembers the series of the overview. But for `read`, for one thread at a time."""

    def __init__(self, addresses: Addresses, *, writes: bool) -> None:
        """Take how names become addresses, on PostgreSQL. No I/O."""
        self._table = history_table(addresses)
        self._outage = Outage("Keeping the history", logging.getLogger("rowbus.web"))
        self._minute: int | None = None
        self._before: dict[QueueAddress, Counters] = {}
        self._hour: int | None = None
        self.writes = writes
        self.overview: dict[Span, Past] = {}
        self.obstacle = ""

    def is_due(self, now: float) -> bool:
        """Say whether a minute has begun; `now` is in seconds of the day's clock."""
        return int(now // 60) != self._minute

    def take(self, session: Session, snapshot: Snapshot, now: float) -> None:
        """Note a snapshot, and read the overview's series again. Raises nothing: `obstacle` says what failed."""
        counted = {queue.address: queue.counted for queue in snapshot.queues if queue.counted is not None}
        is_next, before = self._minute == int(now // 60) - 1, self._before
        self._minute, self._before = int(now // 60), counted
        try:
            if self.writes and is_next:
                self._note(session, points_of(snapshot, before), int(now // 3600))
        except RowbusError as error:
            advice = GRANT if isinstance(error, PermissionDeniedError) else ""
            self.obstacle = f"Nothing is noted: {error}{advice}"
            self._outage.failed(error)
        else:
            self.obstacle = ""
            self._outage.succeeded()
        for span in Span:
            self.overview[span], unread = self.read(session, [""], span)
            self.obstacle = self.obstacle or unread

    def read(self, session: Session, names: Sequence[str], span: Span) -> tuple[Past, str]:
        """Return all series of these names; and why there are none, where they cannot be read."""
        try:
            if not is_there(session, self._table):
                return {}, "None was noted yet: the page begins with its second minute."
            return session.run(self._table.series(names, span)), ""
        except RowbusError as error:
            return {}, str(error)

    def _note(self, session: Session, found: dict[Series, Point], hour: int) -> None:
        if not is_there(session, self._table):
            run_now(make_table(BlockingSession(session), self._table))
        with session.transaction():
            session.run(self._table.note(found))
        if self._hour != hour:
            session.run(self._table.forget())
            self._hour = hour


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


def _point(queue: QueueFigures, before: dict[QueueAddress, Counters]) -> Point:
    now, then = queue.counted, before.get(queue.address)
    if now is None or then is None or now.inserted < then.inserted or now.deleted < then.deleted:
        return Point(depth=queue.depth)
    return Point(depth=queue.depth, entered=now.inserted - then.inserted, taken=now.deleted - then.deleted)


def _sum(queues: Sequence[QueueFigures], before: dict[QueueAddress, Counters]) -> Point:
    points = [_point(queue, before) for queue in queues]
    entered = [point.entered for point in points if point.entered is not None]
    taken = [point.taken for point in points if point.taken is not None]
    return Point(
        depth=sum(point.depth or 0 for point in points),
        entered=sum(entered) if entered else None,
        taken=sum(taken) if taken else None,
    )
