"""Pauses: what nobody is to work on until a person says so, or until a moment; the operations on their table.

Who works on something asks with the statement `holds`, about once a second while there is something to do.

Invariant: a pause is in force from the commit that adds it; where the table is missing, nothing is paused.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.backends import bound_table
from rowbus.errors import ConfigurationError
from rowbus.messages.address import address_of, refuse_nul
from rowbus.transport.queues.records.table import RecordStatements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rowbus.database.sessions import Session
    from rowbus.database.statements import Statement
    from rowbus.messages.address import Addresses, QueueAddress

PAUSES: Final = "Rowbus.Pauses"
"""The name of the table, in the schema of names that are given without one."""


MESSAGE: Final = "message"
"""The kind of a hold on one message, by its id: who has it in hand is to end its handler."""


class PauseKind(Enum):
    """What can be paused."""

    ENDPOINT = "endpoint"
    QUEUE = "queue"
    CONSUMER = "consumer"
    RECURRING = "recurring"


class PauseSubject(NamedTuple):
    """Something that can be paused: an endpoint by name, a queue by address, `LOG/CONSUMER`, `ENDPOINT/NAME`."""

    kind: str
    name: str


def subject_of(kind: PauseKind, name: str, addresses: Addresses) -> PauseSubject:
    """Return what a person names; raises ConfigurationError, and InvalidAddressError for a queue that cannot be one."""
    if not name:
        raise ConfigurationError("Say its name.")
    refuse_nul(kind.value, name)
    if kind in {PauseKind.CONSUMER, PauseKind.RECURRING} and "/" not in name:
        raise ConfigurationError(
            f"A {kind.value} has a name of two parts: LOG/CONSUMER or ENDPOINT/RECURRING; {name!r} has one."
        )
    return PauseSubject(kind.value, str(address_of(name, addresses)) if kind is PauseKind.QUEUE else name)


class Pause(NamedTuple):
    """A pause as the table has it; `until` is None for one that a person ends."""

    kind: str
    name: str
    person: str
    why: str
    began: datetime
    until: datetime | None


class PausesTable(RecordStatements):
    """Statements on the table of pauses; each runs in its runner's transaction."""

    folder = "transport/pauses"
    variable = "pauses"
    remedy = "the table does not exist; the first `rowbus pause` creates it, if its role may."

    def pause(self, what: PauseSubject, *, person: str, why: str, until: datetime | None) -> Statement[int]:
        """Pause something, or say anew why and until when."""
        raise NotImplementedError

    def resume(self, what: PauseSubject) -> Statement[int]:
        """End a pause; say 0 if there was none."""
        raise NotImplementedError

    def holds(self, names: Sequence[PauseSubject]) -> Statement[list[PauseSubject]]:
        """Return which of these are paused."""
        raise NotImplementedError

    def list(self) -> Statement[list[Pause]]:
        """Return the pauses in force."""
        raise NotImplementedError

    def can_be_read(self) -> Statement[bool]:
        """Say whether the table is there, and this role may read it."""
        raise NotImplementedError


def pauses_table(address: QueueAddress) -> PausesTable:
    """Return the statements on a table of pauses. No I/O."""
    table: PausesTable = bound_table("rowbus.transport.pauses", "PausesTable", address)
    return table


def pauses_address(addresses: Addresses) -> QueueAddress:
    """Return the table of pauses of a database."""
    return addresses.for_endpoint(PAUSES)


def paused(session: Session, addresses: Addresses) -> tuple[Pause, ...]:
    """Return what is paused in a database; nothing where no table can be read."""
    if addresses.backend != "postgresql":
        return ()
    table = pauses_table(pauses_address(addresses))
    return tuple(session.run(table.list())) if session.run(table.can_be_read()) else ()
