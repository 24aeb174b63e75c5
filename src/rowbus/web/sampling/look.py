"""One look at a database: every part that is due, each by itself, and none too often; its queues, how deep, how fast.

A queue is counted up to `MOST_COUNTED` messages, by its index; beyond that the server's estimate is shown. One whose
counters stand still is not read again while it is empty, and otherwise each `STILL_PERIOD`, for what is in hand, of
many such queues `STILL_READS` a look: 200 idle queues cost one statement, and 200 that stand still with messages
eleven.

Invariants: a part that fails leaves a note in the snapshot; only a lost connection ends a look; a queue that this role
may not read, that is a stranger's, or that is locked or dropped meanwhile, does not hide the others; time is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.contracts.published import examine_contracts
from rowbus.database.locks import find_holders_now
from rowbus.database.ownership import suspicious
from rowbus.database.statements import run_steps_now
from rowbus.errors import ConnectionLostError, QueueNotFoundError, RowbusError
from rowbus.log import catalog as log_catalog
from rowbus.log.examination import examine, examine_logs
from rowbus.log.schema import table as log_schema
from rowbus.log.spark_drivers import SparkDrivers
from rowbus.log.ticker import ticks
from rowbus.messages.message import read_headers, time_sent
from rowbus.sagas.stuck import examine_sagas
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.pauses.table import paused
from rowbus.transport.queues.catalog.looking import (
    FoundTables,
    NotLookedAtError,
    find_queues,
    look,
    look_into_each,
    sort_out,
)
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.diagnosis import SNAPSHOT_WARNING, Finding, Level
from rowbus.transport.queues.traffic import CLOCK_OFF, HEAP, Kind
from rowbus.web.sampling.snapshot import (
    AbsentEndpoint,
    Counters,
    DelayedFigures,
    QueueFigures,
    Snapshot,
    counters,
    instances,
)

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.queues.shape import QueueShape
    from rowbus.transport.queues.traffic import Receivers

SHARE: Final = 0.01
"""Of the time, at most, that one part keeps a session busy: what took 0.1 s is not looked at again for 10 s."""

QUEUES_SHARE: Final = 0.03
"""Of the time, for the queues."""

URGENT_SHARE: Final = 0.1
"""Of the time, for what people wait for: who has gone, and logs."""

EXAMINATION_SHARE: Final = 0.2
"""Of the time, for the doctor: one who takes 0.8 s comes every four seconds."""

LONGEST: Final = 60.0  # seconds until a part is looked at again, however long it took


class Pace:
    """When a part is due again: after its period, or later if it took long."""

    def __init__(self, period: float, share: float = SHARE) -> None:
        """Take the period in seconds, and the share of the time. It is due at once."""
        self._period = period
        self._share = share
        self._due = float("-inf")

    def is_due(self, now: float) -> bool:
        """Say whether to look now."""
        return now >= self._due

    def took(self, seconds: float, now: float) -> None:
        """Note how long the part took, which ended now."""
        self._due = now + max(
            self._period * 0.9, min(seconds / self._share, LONGEST)
        )  # a round may come a little early

    def hasten(self) -> None:
        """Have it due at once: something was changed on this page."""
        self._due = float("-inf")


MOST_COUNTED: Final = 1_001
CATALOGUE_PERIOD: Final = 30.0  # seconds between two looks for queues that are new
STILL_PERIOD: Final = 30.0  # seconds between two looks into a queue that nothing enters or leaves, at least
STILL_READS: Final = 10  # such queues that one look reads, at most


class QueueLook:
    """The queues, from one look to the next."""

    def __init__(self, addresses: Addresses, *, has_statistics: bool) -> None:
        """Take how names become addresses, and whether the server counts as PostgreSQL does. No I/O."""
        self._catalog = catalog_of(addresses)
        self._has_statistics = has_statistics
        self._shapes: list[QueueShape] = []
        self._counted: dict[QueueAddress, Counters] = {}
        self._counted_at = 0.0
        self._known: dict[QueueAddress, QueueFigures] = {}
        self._read_at: dict[QueueAddress, float] = {}
        self.catalogue = Pace(CATALOGUE_PERIOD)

    def take(self, session: Session, now: float) -> tuple[QueueFigures, ...]:
        """Look at all queues; `now` is in seconds of a clock that only goes forward."""
        if self.catalogue.is_due(now):
            self._shapes = [shape for shape in find_queues(session, self._catalog) if shape.is_queue]
            self.catalogue.took(0, now)
        counted = self._count(session)
        fitting = self._still_fitting(now)
        found = {
            shape.address: self._figures(
                session, shape, counted.get(shape.address), now, still_fits=shape.address in fitting
            )
            for shape in self._shapes
        }
        self._known, self._counted, self._counted_at = found, counted, now
        return tuple(found.values())

    @property
    def addresses(self) -> list[QueueAddress]:
        """The queues of the last look."""
        return list(self._known)

    def hasten(self) -> None:
        """Look at everything the next time: something was changed."""
        self.catalogue.hasten()
        self._read_at.clear()

    def _count(self, session: Session) -> dict[QueueAddress, Counters]:
        if not self._has_statistics:
            return {}
        return session.run(counters(shape.address for shape in self._shapes))

    def _figures(
        self,
        session: Session,
        shape: QueueShape,
        counted: Counters | None,
        now: float,
        *,
        still_fits: bool,
    ) -> QueueFigures:
        if counted is None:
            figures = QueueFigures(shape, may_change=shape.readable, left_out=shape.left_out)
            return self._read(session, figures, None)
        before, elapsed = self._counted.get(shape.address), now - self._counted_at
        figures = QueueFigures(
            shape,
            rate_in=_rate(counted.inserted, before and before.inserted, elapsed),
            rate_out=_rate(counted.deleted, before and before.deleted, elapsed),
            counted=counted,
            may_change=counted.may_delete and not shape.left_out,
            left_out=shape.left_out,
        )
        known = self._known.get(shape.address) if before == counted else None
        if known is not None and still_fits and known.left_out == shape.left_out:
            return replace(
                figures,
                depth=known.depth,
                is_exact=known.is_exact,
                in_hand=known.in_hand,
                oldest_sent=known.oldest_sent,
            )
        self._read_at[shape.address] = now
        return self._read(session, figures, counted.live)

    def _still_fitting(self, now: float) -> set[QueueAddress]:
        """Return the queues of which what was read still fits, if nothing entered or left them since.

        That is all that were empty, and all others but those whose turn it is: the ones that were read longest ago.
        """
        read_at = self._read_at
        empty = {address for address, known in self._known.items() if known.depth == 0}
        full = [address for address in self._known if address in read_at and address not in empty]
        full.sort(key=lambda address: read_at[address])
        turns = {address for address in full[:STILL_READS] if now - read_at[address] >= STILL_PERIOD}
        return empty.union(full) - turns

    def _read(self, session: Session, figures: QueueFigures, estimate: int | None) -> QueueFigures:
        if not figures.shape.readable:
            return replace(figures, depth=estimate, is_exact=False)
        try:
            asked = self._catalog.queue_state(figures.address, MOST_COUNTED)
            state = look(session, figures.address, asked)
        except NotLookedAtError as error:
            return replace(figures, left_out=error.reason)
        except QueueNotFoundError:
            self.catalogue.hasten()
            return figures
        is_exact = state.depth < MOST_COUNTED
        return replace(
            figures,
            depth=state.depth if is_exact else max(estimate or 0, MOST_COUNTED - 1),
            is_exact=is_exact,
            in_hand=state.in_hand,
            oldest_sent=None
            if state.oldest_headers is None
            else time_sent(read_headers(state.oldest_headers)),
        )


def _rate(now: int, before: int | None, elapsed: float) -> float | None:
    """Return how many a second; None at the first look, and after the statistics were reset."""
    if before is None or now < before or elapsed <= 0:
        return None
    return (now - before) / elapsed


MOST_DELAYED: Final = 10_000
EXAMINATION_PERIOD: Final = 4.0  # seconds, where an examination takes no more than 0.8 s
DELAYED_CATALOGUE_PERIOD: Final = 60.0
REMEMBERED: Final = timedelta(days=1)  # how long an endpoint that has gone is shown
_SEVERITY: Final = {Level.FAIL: 0, Level.WARN: 1, Level.OK: 2}


class Part(NamedTuple):
    """A part of a look: what it is called, when it is due, and what it finds, as fields of the snapshot."""

    name: str
    pace: Pace
    find: Callable[[Session, float], dict[str, Any]]


class Look:
    """Looks at one database again and again; for one thread at a time."""

    def __init__(self, addresses: Addresses, *, is_postgresql: bool, period: float) -> None:
        """Take how names become addresses, and seconds between two looks. No I/O."""
        self._addresses = addresses
        self._catalog = catalog_of(addresses)
        self._queues = QueueLook(addresses, has_statistics=is_postgresql)
        self._has_logs = is_postgresql
        self._drivers = SparkDrivers()
        self._delayed = FoundTables([], {})
        self._delayed_catalogue = Pace(DELAYED_CATALOGUE_PERIOD)
        self._parts = [
            Part("queues", Pace(period, QUEUES_SHARE), self._find_queues),
            Part("delayed messages", Pace(period), self._find_delayed),
        ]
        if is_postgresql:
            self._parts.append(Part("instances", Pace(period, URGENT_SHARE), self._find_instances))
            self._parts.append(Part("logs", Pace(period, URGENT_SHARE), self._find_logs))
        self._examination = Pace(EXAMINATION_PERIOD, EXAMINATION_SHARE)
        self._parts.append(Part("findings", self._examination, self._examine))
        self._seen: dict[QueueAddress, AbsentEndpoint] = {}
        self._state: object = None
        self._alarms: tuple[bool, ...] = ()

    def take(self, session: Session, before: Snapshot) -> Snapshot:
        """Look at what is due; the rest is as before. Raises ConnectionLostError."""
        began = time.monotonic()
        found: dict[str, Any] = {}
        notes = dict(before.notes)
        for part in self._parts:
            if part.pace is self._examination:
                self._examine_what_changed(replace(before, **found))
            if part.pace.is_due(at := time.monotonic()):
                notes.pop(part.name, None)
                try:
                    found |= part.find(session, at)
                except ConnectionLostError:
                    raise
                except RowbusError as error:
                    notes[part.name] = str(error)
                ended = time.monotonic()
                part.pace.took(ended - at, ended)
        took = timedelta(seconds=time.monotonic() - began)
        return replace(before, at=datetime.now(UTC), took=took, notes=notes, trouble="", **found)

    def hasten(self) -> None:
        """Look at everything the next time: something was changed."""
        for part in self._parts:
            part.pace.hasten()
        self._queues.hasten()
        self._delayed_catalogue.hasten()

    def _examine_what_changed(self, found: Snapshot) -> None:
        """Have the doctor come at once when a receiver or the ticker goes or comes, or something is in trouble."""
        now = datetime.now(UTC)
        troubled = frozenset(queue.address for queue in found.queues if _is_troubled(queue, now))
        receiving = frozenset(one.queue for one in found.receivers)
        state = (receiving, found.ticker is None, troubled, self._alarms)
        if self._state not in {None, state}:
            self._examination.hasten()
        self._state = state

    def _find_queues(self, session: Session, now: float) -> dict[str, Any]:
        return {"queues": self._queues.take(session, now)}

    def _find_delayed(self, session: Session, now: float) -> dict[str, Any]:
        if self._delayed_catalogue.is_due(now):
            found = session.run(self._catalog.find_delayed())
            self._delayed = sort_out(session, self._catalog, found)
            self._delayed_catalogue.took(0, now)
        figures, left_out = look_into_each(session, self._delayed.tables, partial(_delayed, session))
        if len(figures) + len(left_out) < len(self._delayed.tables):  # one was dropped
            self._delayed_catalogue.hasten()
        return {"delayed": tuple(figures.values()), "delayed_left_out": self._delayed.left_out | left_out}

    def _examine(self, session: Session, _now: float) -> dict[str, Any]:
        found = sorted(self._judge(session), key=lambda found: _SEVERITY[found.level])
        return {"findings": tuple(found), "examined": datetime.now(UTC)}

    def _judge(self, session: Session) -> Iterator[Finding]:
        yield from examine(session, self._catalog, MOST_DELAYED)
        if self._has_logs:
            yield from examine_logs(session)
        yield from examine_sagas(session, self._catalog)
        yield from examine_contracts(session, self._addresses)

    def _find_instances(self, session: Session, _now: float) -> dict[str, Any]:
        asked = self._catalog.receivers(self._queues.addresses)
        found = tuple(session.run(asked)) if asked is not None else ()
        gone = self._miss(found, datetime.now(UTC))
        self._alarms = self._find_alarms(session)
        return {
            "instances": tuple(session.run(instances())),
            "receivers": found,
            "gone": gone,
            "pauses": paused(session, self._addresses),
        }

    def _find_alarms(self, session: Session) -> tuple[bool, ...]:
        """Say whether a disk is full, and whether a transaction has been open for long."""
        full = self._catalog.full_disks()
        lasted = [holder.lasted for holder in session.run(self._catalog.snapshot_holders())]
        is_old = any(each is not None and each >= SNAPSHOT_WARNING for each in lasted)
        return full is not None and bool(session.run(full)), is_old

    def _miss(self, found: Iterable[Receivers], now: datetime) -> tuple[AbsentEndpoint, ...]:
        """Remember who receives now, and return who did in the last day and does not."""
        here: dict[QueueAddress, AbsentEndpoint] = {}
        for one in found:
            places = here[one.queue].places if one.queue in here else ()
            here[one.queue] = AbsentEndpoint(one.queue, now, (*places, one.place or ""))
        known = set(self._queues.addresses)
        self._seen = {
            queue: seen
            for queue, seen in (self._seen | here).items()
            if queue in known and now - seen.seen < REMEMBERED
        }
        return tuple(seen for queue, seen in self._seen.items() if queue not in here)

    def _find_logs(self, session: Session, _now: float) -> dict[str, Any]:
        strangers = suspicious(session.run(log_schema.foreign_objects()))
        if strangers or not session.run(log_schema.state()).is_ours:
            return {"logs": (), "consumers": (), "drivers": {}, "ticker": None}
        consumers = session.run(log_catalog.consumer_states())
        return {
            "logs": tuple(session.run(log_catalog.log_states())),
            "consumers": tuple(consumers),
            "drivers": run_steps_now(session, self._drivers.look(consumers)),
            "ticker": find_holders_now(session, ticks.leaders()),
        }


def _is_troubled(queue: QueueFigures, now: datetime) -> bool:
    """Say whether the doctor may have to tell of a queue: failures, audits, a heap, a message of the future."""
    depth = queue.depth or 0
    is_ahead = queue.oldest_sent is not None and queue.oldest_sent - now > CLOCK_OFF
    return (queue.kind is not Kind.QUEUE and depth > 0) or depth >= HEAP or is_ahead


def _delayed(session: Session, address: QueueAddress) -> DelayedFigures:
    table = delayed_table(address)
    mover = find_holders_now(session, table.leaders())
    return DelayedFigures(address, session.run(table.state(MOST_DELAYED)), mover, MOST_DELAYED)
