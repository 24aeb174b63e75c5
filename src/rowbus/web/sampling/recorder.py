"""What the page notes of its looks once a minute, for hours and weeks, in the table `Rowbus.History`.

Invariants: a minute's counts are those since this page's last note, so the first minute of a page has none; what cannot
be noted is shown all the same, and said once in the log; the charts of the overview are those of the last note.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from rowbus.database.statements import BlockingSession, run_now
from rowbus.errors import PermissionDeniedError, RowbusError
from rowbus.running.critical import Outage
from rowbus.transport.history.table import Point, Series, Span, history_table
from rowbus.transport.queues.catalog.looking import is_there
from rowbus.transport.queues.installer import make_table
from rowbus.transport.queues.traffic import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.web.sampling.snapshot import QueueFigures, Snapshot
    from rowbus.web.sampling.statistics import Counters

QUEUE: Final = "queue"
CONSUMER: Final = "consumer"
ALL_QUEUES, ALL_FAILED, ALL_LOGS = (Series(kind, "") for kind in ("queues", "failed", "logs"))
MOST: Final = 1_000
"""Series that are noted, at most: the queues and consumers with most before them."""

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
        for one in snapshot.consumers
    }
    wanted = sorted(found, key=lambda series: -(found[series].depth or 0))[:MOST]
    totals = {ALL_QUEUES: _sum(ordinary, before), ALL_FAILED: _sum(snapshot.error_queues(), before)}
    if lags := [one.lag.total_seconds() for one in snapshot.consumers if one.lag is not None]:
        totals[ALL_LOGS] = Point(lag=max(lags))
    return totals | {series: found[series] for series in wanted}


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
