"""One look at a database: every part that is due, each by itself.

Invariant: a part that fails leaves a note in the snapshot; only a lost connection ends a look.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.database.locks.holders import find_holders_now
from rowbus.database.ownership import suspicious
from rowbus.database.steps import run_steps_now
from rowbus.errors import ConnectionLostError, RowbusError
from rowbus.log import catalog as log_catalog
from rowbus.log.examination import examine, examine_logs
from rowbus.log.schema import table as log_schema
from rowbus.log.spark_drivers import SparkDrivers
from rowbus.log.ticker import ticks
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.queues.catalog.finding import Found, sort_out
from rowbus.transport.queues.catalog.looking import NotLookedAtError, looking
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.diagnosis import Finding, Level
from rowbus.web.sampling.pacing import Pace
from rowbus.web.sampling.queues import QueueLook
from rowbus.web.sampling.snapshot import DelayedFigures, Snapshot
from rowbus.web.sampling.statistics import instances, receivers

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses

MOST_DELAYED: Final = 10_000
EXAMINATION_PERIOD: Final = 60.0
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
        self._catalog = catalog_of(addresses)
        self._queues = QueueLook(addresses, has_statistics=is_postgresql)
        self._has_logs = is_postgresql
        self._drivers = SparkDrivers()
        self._delayed = Found([], {})
        self._delayed_catalogue = Pace(EXAMINATION_PERIOD)
        self._parts = [
            Part("queues", Pace(period), self._find_queues),
            Part("delayed messages", Pace(period), self._find_delayed),
            Part("findings", Pace(EXAMINATION_PERIOD), self._examine),
        ]
        if is_postgresql:
            self._parts.append(Part("instances", Pace(period), self._find_instances))
            self._parts.append(Part("logs", Pace(period), self._find_logs))

    def take(self, session: Session, before: Snapshot) -> Snapshot:
        """Look at what is due; the rest is as before. Raises ConnectionLostError."""
        began = time.monotonic()
        found: dict[str, Any] = {}
        notes = dict(before.notes)
        for part in self._parts:
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

    def _find_queues(self, session: Session, now: float) -> dict[str, Any]:
        return {"queues": self._queues.take(session, now)}

    def _find_delayed(self, session: Session, now: float) -> dict[str, Any]:
        if self._delayed_catalogue.is_due(now):
            found = session.run(self._catalog.find_delayed())
            self._delayed = sort_out(session, self._catalog, found)
            self._delayed_catalogue.took(0, now)
        figures, left_out = list[DelayedFigures](), dict(self._delayed.left_out)
        for address in self._delayed.tables:
            try:
                figures.append(_delayed(session, address))
            except NotLookedAtError as error:
                left_out[address] = error.reason
        return {"delayed": tuple(figures), "delayed_left_out": left_out}

    def _examine(self, session: Session, _now: float) -> dict[str, Any]:
        return {"findings": tuple(sorted(self._judge(session), key=lambda found: _SEVERITY[found.level]))}

    def _judge(self, session: Session) -> Iterator[Finding]:
        yield from examine(session, self._catalog, MOST_DELAYED)
        if self._has_logs:
            yield from examine_logs(session)

    def _find_instances(self, session: Session, _now: float) -> dict[str, Any]:
        found = session.run(receivers(self._queues.addresses))
        return {"instances": tuple(session.run(instances())), "receivers": tuple(found)}

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


def _delayed(session: Session, address: QueueAddress) -> DelayedFigures:
    table = delayed_table(address)
    with looking(session, address):
        mover = find_holders_now(session, table.leaders())
        return DelayedFigures(address, session.run(table.state(MOST_DELAYED)), mover, MOST_DELAYED)
