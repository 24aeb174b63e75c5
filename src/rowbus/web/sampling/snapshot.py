"""Values of one look at the database, from which pages are written; statements on what the server has counted.

The server counts rows in and out of tables, and sessions by their program.

Invariants: a snapshot never changes, and says how old it is. The statements are PostgreSQL's alone
(`Database.has_logs`); each reads the catalogue and the statistics, and no queue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.statements import Statement, each, load
from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.traffic import Kind, kind_of

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.database.statements import Rows
    from rowbus.log.diagnosis import ConsumerState, LogState
    from rowbus.transport.delayed.table import DelayedState
    from rowbus.transport.pauses.table import Pause
    from rowbus.transport.queues.diagnosis import Finding
    from rowbus.transport.queues.shape import QueueShape
    from rowbus.transport.queues.traffic import Receivers

_FOLDER = "web/sql/postgresql"


class Counters(NamedTuple):
    """Counts of a table since the statistics were reset; `live` is an estimate."""

    inserted: int
    deleted: int
    live: int
    may_delete: bool


class Instances(NamedTuple):
    """The sessions of one program, from one place: an address. None: the role may not see it."""

    name: str
    place: str | None
    sessions: int
    busy: int | None
    since: datetime | None


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """The state of a queue. `depth` is an estimate unless it `is_exact`; rates are messages a second.

    `counted` is what rates are worked out from; `left_out` says why nothing was read of it.
    """

    shape: QueueShape
    depth: int | None = None
    is_exact: bool = True
    in_hand: int | None = None
    oldest_sent: datetime | None = None
    rate_in: float | None = None
    rate_out: float | None = None
    counted: Counters | None = None
    may_change: bool = False
    left_out: str = ""
    lanes: tuple[QueueFigures, ...] = ()
    """Those of the endpoint's lanes, which are counted with it."""

    @property
    def address(self) -> QueueAddress:
        """Where it is."""
        return self.shape.address

    @property
    def kind(self) -> Kind:
        """The purpose: error and audit queues are called so by convention, in any case."""
        return kind_of(self.address)


@dataclass(frozen=True, slots=True)
class DelayedFigures:
    """A table of delayed messages now; counts stop at a limit. `mover` moves what is due, if it can be seen."""

    address: QueueAddress
    state: DelayedState
    mover: str | None
    at_most: int

    def count(self, value: int) -> str:
        """Write one of its counts."""
        return f"{self.at_most:,} or more" if value >= self.at_most else f"{value:,}"


@dataclass(frozen=True, slots=True)
class AbsentEndpoint:
    """An endpoint whose processes were seen in the last day, and are not there: since when, and where they ran last."""

    queue: QueueAddress
    seen: datetime
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that was found. `trouble` says why the last look failed; what is here is then from the one before."""

    at: datetime | None = None
    took: timedelta = timedelta()
    queues: tuple[QueueFigures, ...] = ()
    instances: tuple[Instances, ...] = ()
    receivers: tuple[Receivers, ...] = ()
    gone: tuple[AbsentEndpoint, ...] = ()
    pauses: tuple[Pause, ...] = ()
    delayed: tuple[DelayedFigures, ...] = ()
    delayed_left_out: Mapping[QueueAddress, str] = field(default_factory=dict["QueueAddress", str])
    """Tables of delayed messages of which nothing is read, and why."""
    logs: tuple[LogState, ...] = ()
    consumers: tuple[ConsumerState, ...] = ()
    drivers: Mapping[tuple[str, str], bool] = field(default_factory=dict[tuple[str, str], bool])
    """Of the consumers that are queries of Spark's, by log and consumer: whether a driver runs."""
    ticker: str | None = None
    findings: tuple[Finding, ...] = ()
    examined: datetime | None = None
    """When the doctor found them."""
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Parts that could not be looked at, and why, by their names."""
    trouble: str = ""

    def queue(self, address: QueueAddress) -> QueueFigures | None:
        """Return the figures of a queue; None if there is none, or it is not known yet."""
        return next((one for one in self.queues if one.address == address), None)

    def may_change(self, addresses: Collection[QueueAddress]) -> bool:
        """Whether the database's role may delete from all of these."""
        return all(found is not None and found.may_change for found in map(self.queue, addresses))

    @property
    def hides_sessions(self) -> bool:
        """Whether there are sessions of which the role may not see where they come from."""
        return None in {*(one.place for one in self.instances), *(one.place for one in self.receivers)}

    def error_queues(self) -> list[QueueFigures]:
        """Return the queues called `error`, in any schema."""
        return [queue for queue in self.queues if queue.kind is Kind.ERROR]


def counters(addresses: Iterable[QueueAddress]) -> Statement[dict[QueueAddress, Counters]]:
    """Read the counters of tables; missing ones are left out."""
    query = load(f"{_FOLDER}/counters.sql", failing="Failed to read the statistics of queues", prepare=False)
    named = list(addresses)
    parameters = {"schemas": [one.schema for one in named], "tables": [one.table for one in named]}
    return Statement(query, parameters, _counters)


def may_delete(session: Session, address: QueueAddress) -> bool:
    """Whether the database's role may delete from a table; where the database does not say, it is tried."""
    if address.backend != "postgresql":
        return True
    counted = session.run(counters([address])).get(address)
    return counted is not None and counted.may_delete


def instances() -> Statement[list[Instances]]:
    """Find the sessions of Rowbus's programs."""
    query = load(f"{_FOLDER}/instances.sql", failing="Failed to look for sessions", prepare=False)
    return Statement(query, {}, each(Instances._make))


def _counters(rows: Rows, _count: int) -> dict[QueueAddress, Counters]:
    return {QueueAddress(schema, name): Counters(*counted) for schema, name, *counted in rows}
