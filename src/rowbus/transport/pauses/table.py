"""Pauses that operators have set: the operations on their table, on every database, and how those who work ask.

A scale is one that leaves so much running: messages at a time, or worker processes of an endpoint, or messages of a
type in hand.

Who works on something asks with the statement `list`, about once a second while there is something to do.

Invariants: a pause is in force from the commit that adds it; a table that is missing, or that the role may not read,
pauses nothing. A `Hold` asks nothing while there is nothing to do, and a statement more a second otherwise.
"""

from __future__ import annotations

import logging
import time
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.backends import bound_table
from rowbus.database.statements import BlockingSession, run_now
from rowbus.errors import ConfigurationError
from rowbus.messages.address import address_of, refuse_nul
from rowbus.transport.queues.catalog.looking import is_there
from rowbus.transport.queues.installer import make_table
from rowbus.transport.queues.records.table import RecordStatements

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from datetime import datetime

    from rowbus.database.sessions import AsyncSession, Session
    from rowbus.database.statements import Statement
    from rowbus.messages.address import Addresses, QueueAddress

logger = logging.getLogger("rowbus.receiving")

PERIOD: Final = 1.0  # seconds between two questions

PAUSES: Final = "Rowbus.Pauses"
"""The name of the table, in the schema of names that are given without one."""

MESSAGE: Final = "message"
"""The kind of a hold on one message, by its id: who has it in hand is to end its handler."""

MOST: Final = 1000
"""The largest figure that can be said."""


class PauseKind(Enum):
    """The kind of thing that can be paused."""

    ENDPOINT = "endpoint"
    QUEUE = "queue"
    CONSUMER = "consumer"
    RECURRING = "recurring"
    TYPE = "type"


class ScaleKind(Enum):
    """The figures of an endpoint: messages at a time in a process, or processes of `rowbus run --workers`.

    A limit is the number of messages of a type that are in hand at a time, in all processes together.
    """

    CONCURRENCY = "concurrency"
    WORKERS = "workers"
    LIMIT = "limit"


class PauseSubject(NamedTuple):
    """Something that can be paused: an endpoint by name, a queue by address, `LOG/CONSUMER`, `ENDPOINT/NAME`.

    A type of messages is `ENDPOINT/TYPE`.
    """

    kind: str
    name: str


def subject_of(kind: PauseKind, name: str, addresses: Addresses) -> PauseSubject:
    """Return what a person names; raises ConfigurationError, and InvalidAddressError for a queue that cannot be one."""
    if not name:
        raise ConfigurationError("Say its name.")
    refuse_nul(kind.value, name)
    if kind in {PauseKind.CONSUMER, PauseKind.RECURRING, PauseKind.TYPE}:
        _check_parts(kind.value, name)
    return PauseSubject(kind.value, str(address_of(name, addresses)) if kind is PauseKind.QUEUE else name)


def scale_subject(kind: ScaleKind, name: str, addresses: Addresses) -> PauseSubject:
    """Return what a person scales; raises ConfigurationError, and InvalidNameError for what no endpoint is called."""
    refuse_nul(kind.value, name)
    if kind is ScaleKind.LIMIT:
        _check_parts(kind.value, name)
    addresses.validate_endpoint_name(name.partition("/")[0] if kind is ScaleKind.LIMIT else name)
    return PauseSubject(kind.value, name)


def _check_parts(kind: str, name: str) -> None:
    if not all(name.partition("/")):
        raise ConfigurationError(
            f"A {kind} has a name of two parts: LOG/CONSUMER, ENDPOINT/RECURRING or ENDPOINT/TYPE; {name!r} has one."
        )


class Pause(NamedTuple):
    """A pause as the table has it; `until` is None for one that a person ends.

    `amount` is what a scale leaves running; a pause has None.
    """

    kind: str
    name: str
    person: str
    why: str
    began: datetime
    until: datetime | None
    amount: int | None = None


class PausesTable(RecordStatements):
    """Statements on the table of pauses; each runs in its runner's transaction."""

    folder = "transport/pauses"
    variable = "pauses"
    privileges = ("select",)
    remedy = "the table does not exist; the first `rowbus pause` creates it, if its role may."

    def pause(self, what: PauseSubject, *, person: str, why: str, until: datetime | None) -> Statement[int]:
        """Pause something, or say anew why and until when."""
        raise NotImplementedError

    def scale(
        self, what: PauseSubject, amount: int, *, person: str, why: str, until: datetime | None
    ) -> Statement[int]:
        """Have so much of something run, or say anew how much, why and until when."""
        raise NotImplementedError

    def widen(self) -> Statement[None]:
        """Give a table that is older than scales its column."""
        raise NotImplementedError

    def is_wide(self) -> Statement[bool]:
        """Say whether the table has the column of scales."""
        raise NotImplementedError

    def resume(self, what: PauseSubject) -> Statement[int]:
        """End a pause or a scale; say 0 if there was none."""
        raise NotImplementedError

    def list(self) -> Statement[list[Pause]]:
        """Return the pauses and scales in force."""
        raise NotImplementedError


def pauses_table(address: QueueAddress) -> PausesTable:
    """Return the statements on a table of pauses. No I/O."""
    table: PausesTable = bound_table("rowbus.transport.pauses", "PausesTable", address)
    return table


def pauses_address(addresses: Addresses) -> QueueAddress:
    """Return the table of pauses of a database."""
    return addresses.for_endpoint(PAUSES)


def pause_now(
    session: Session,
    address: QueueAddress,
    what: PauseSubject,
    *,
    person: str,
    why: str,
    until: datetime | None,
) -> int:
    """Pause something; create the table if it is missing. Raises StorageError, ConfigurationError, NotLookedAtError."""
    table = pauses_table(address)
    if not is_there(session, table):
        run_now(make_table(BlockingSession(session), table))
    return session.run(table.pause(what, person=person, why=why, until=until))


def scale_now(
    session: Session,
    address: QueueAddress,
    what: PauseSubject,
    amount: int,
    *,
    person: str,
    why: str,
    until: datetime | None,
) -> int:
    """Have so much of something run; create the table, or its column, if it is missing. Raises as `pause_now`."""
    if not 1 <= amount <= MOST:
        raise ConfigurationError(f"{what.kind} is {amount}; give a number from 1 to {MOST}.")
    table = pauses_table(address)
    if not is_there(session, table):
        run_now(make_table(BlockingSession(session), table))
    elif not session.run(table.is_wide()):
        session.run(table.widen())
    return session.run(table.scale(what, amount, person=person, why=why, until=until))


def paused(session: Session, addresses: Addresses) -> tuple[Pause, ...]:
    """Return what is paused in a database; nothing where no table can be read."""
    return tuple(one for one in _in_force(session, addresses) if one.amount is None)


def scaled(session: Session, addresses: Addresses) -> tuple[Pause, ...]:
    """Return what is scaled in a database; nothing where no table can be read."""
    return tuple(one for one in _in_force(session, addresses) if one.amount is not None)


def scale_of(found: Iterable[Pause], kind: ScaleKind, endpoint: str) -> Pause | None:
    """Return the scale of an endpoint among what is in force."""
    what = (kind.value, endpoint)
    return next((one for one in found if (one.kind, one.name) == what and one.amount is not None), None)


def type_limits(found: Iterable[Pause], endpoint: str) -> dict[str, int]:
    """Return how many messages of a type an endpoint may have in hand, among what is in force; 0: it is paused."""
    limits: dict[str, int] = {}
    for one in found:
        of, _, name = one.name.partition("/")
        if of == endpoint and one.kind in {PauseKind.TYPE.value, ScaleKind.LIMIT.value}:
            limits[name] = min(one.amount or 0, limits.get(name, MOST))
    return limits


def _in_force(session: Session, addresses: Addresses) -> Sequence[Pause]:
    if addresses.backend != "postgresql":
        return ()
    table = pauses_table(pauses_address(addresses))
    return session.run(table.list()) if session.run(table.can_be_used()) else ()


class Hold:
    """Knows which of some names are paused. For one event loop."""

    def __init__(
        self,
        address: QueueAddress,
        names: Sequence[PauseSubject],
        clock: Callable[[], float] = time.monotonic,
        *,
        hear: Callable[[Sequence[Pause]], None] = lambda _: None,
    ) -> None:
        """Take the table and the names to ask for; `hear` is told all that is in force each time. No I/O."""
        self._table = pauses_table(address) if address.backend == "postgresql" else None
        self._names = names
        self.clock = clock
        self._hear = hear
        self._held: list[PauseSubject] = []
        self.due = float("inf") if self._table is None else float("-inf")
        """When, by the clock, it is time to ask; long past, while there is something to wait for."""
        self._next = self.due

    async def ask(self, session: AsyncSession) -> Sequence[PauseSubject]:
        """Return what is paused, asking if it is time; in a transaction of its own. Raises StorageError."""
        if self._table is None or self.clock() < self._next:
            return self._held
        self._next = self.clock() + PERIOD
        if not self._held:
            self.due = self._next
        readable = await session.run(self._table.can_be_used())
        found = await session.run(self._table.list()) if readable else []
        self._hear(found)
        paused = {(one.kind, one.name) for one in found}
        self._note([one for one in self._names if one in paused])
        return self._held

    async def wait(
        self, session: AsyncSession, pause: Callable[[float], Awaitable[None]], ended: Callable[[], bool]
    ) -> bool:
        """Wait until nothing is paused; say whether to go on, false when it `ended` meanwhile."""
        while await self.ask(session):
            await pause(PERIOD)
            if ended():
                return False
        return True

    def _note(self, held: list[PauseSubject]) -> None:
        for one in held:
            if one not in self._held:
                logger.warning("The %s %s is paused, by an operator.", *one)
        for one in self._held:
            if one not in held:
                logger.info("The %s %s is resumed.", *one)
        self._held = held
        self.due = float("-inf") if held else self._next
