"""The trail of what people did: how the page and the commands begin, note and end an operation.

Invariants: an operation is noted before it does anything; what a transaction did is noted in that transaction; a
command that may not note does its work all the same, and says that nothing is noted.
"""

from __future__ import annotations

import os
import pwd
import secrets
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from rowbus.database.blocking import BlockingSession, run_now
from rowbus.errors import RowbusError
from rowbus.transport.operations.table import operations_address, operations_table
from rowbus.transport.queues.catalog.looking import is_there
from rowbus.transport.queues.installer import make_table

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from rowbus.database.sessions import Session
    from rowbus.messages.addresses import Addresses
    from rowbus.transport.operations.table import OperationRow, OperationsTable

DONE, FAILED = "done", "failed"

MOST_LOOKED_AT: Final = 100
LIVELY: Final = timedelta(hours=1)
"""What was not heard of for longer is taken for one whose process was killed."""


class Act(NamedTuple):
    """What one person does: to which queue, to which of its messages, and to how many, if that is known."""

    person: str
    action: str
    queue: str
    subject: str
    meant: int | None = None


class Note(Protocol):
    """Adds to the trail what the transaction did, before it commits."""

    def __call__(self, done: int, stayed: int = 0) -> None:
        """Add so many messages that it was done to, and so many that stayed."""
        raise NotImplementedError


def begin(session: Session, addresses: Addresses, identity: str, act: Act) -> OperationsTable:
    """Note that an operation begins; create the log if it is missing. Raises StorageError, NotLookedAtError."""
    table = operations_table(operations_address(addresses))
    if not is_there(session, table):
        run_now(make_table(BlockingSession(session), table))
    session.run(table.begin(identity, **act._asdict()))
    return table


@contextmanager
def noted(
    session: Session, addresses: Addresses, act: Act, *, warn: Callable[[str], None], identity: str = ""
) -> Generator[Note]:
    """Note what a command does; the person is who runs it, with the role of its session.

    Give `act` without a person. A database that keeps no trail has none; `warn` hears why nothing can be noted, and in
    the end what others did to the same queue meanwhile.
    """
    identity = identity or secrets.token_hex(8)
    table = _begun(session, addresses, identity, act, warn)

    def note(done: int, stayed: int = 0) -> None:
        if table is not None:
            session.run(table.note(identity, done, stayed))

    try:
        yield note
    except BaseException as error:
        if table is not None:
            session.run(table.end(identity, FAILED, f"{type(error).__name__}: {error}"))
        raise
    if table is not None:
        session.run(table.end(identity, DONE, ""))
        for line in beside(session.run(table.list(MOST_LOOKED_AT)), identity):
            warn(line)


def _begun(
    session: Session, addresses: Addresses, identity: str, act: Act, warn: Callable[[str], None]
) -> OperationsTable | None:
    if addresses.backend != "postgresql":
        return None
    table = operations_table(operations_address(addresses))
    try:
        return begin(session, addresses, identity, act._replace(person=person_here(session, addresses)))
    except RowbusError as error:
        warn(f"this is not noted in {table.address}: {error}; `rowbus schema grants --web` prints the grant")
        return None


def beside(rows: Sequence[OperationRow], identity: str) -> list[str]:
    """Tell what others did to the same queue while an operation ran: a sentence each. Pure."""
    mine = next((row for row in rows if row.id == identity), None)
    if mine is None:
        return []
    others = (row for row in rows if row.id != identity and row.queue == mine.queue)
    return [
        _told(row) for row in others if row.noted >= mine.began - (LIVELY if row.is_running else timedelta())
    ]


def _told(row: OperationRow) -> str:
    if row.is_running:
        return f"{row.person} began this at {row.began:%H:%M:%S} UTC, and it runs: {row.action}, {row.done:,} done."
    return (
        f"{row.person} worked here, too, from {row.began:%H:%M:%S} UTC on: {row.action}, {row.done:,} done."
    )


def person_here(session: Session, addresses: Addresses) -> str:
    """Name who runs this process, and the role of the session."""
    return f"{_user()}, role {session.run(operations_table(operations_address(addresses)).role())}"


def _user() -> str:
    """Return who runs this process, as the system knows; who called sudo, if that did."""
    name = os.environ.get("SUDO_USER")
    if name:
        return f"{name} (sudo)"
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as a number
        return f"user {os.getuid()}"
