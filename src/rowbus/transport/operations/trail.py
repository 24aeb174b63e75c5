"""The trail of what people did: how the page and the commands begin, note and end an operation.

Invariants: an operation is noted before it does anything; what a transaction did is noted in that transaction; a
command that may not note does its work all the same, and says that nothing is noted.
"""

from __future__ import annotations

import os
import pwd
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.steps import BlockingSession, run_now
from rowbus.errors import RowbusError
from rowbus.transport.operations.table import operations_table
from rowbus.transport.queues.catalog.looking import is_there
from rowbus.transport.queues.installer import make_table

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from rowbus.database.sessions import Session
    from rowbus.messages.addresses import Addresses
    from rowbus.transport.operations.table import OperationRow, OperationsTable

DONE, FAILED = "done", "failed"


class Act(NamedTuple):
    """What one person does: to which queue, to which of its messages, and to how many, if that is known."""

    person: str
    action: str
    queue: str
    subject: str
    meant: int | None = None


class Note:
    """Adds to the trail what a command's transactions do, before they commit; without a table it notes nothing."""

    def __init__(self, session: Session, table: OperationsTable | None, identity: str, person: str) -> None:
        """Note for an operation of this identity. No I/O."""
        self._session, self._table, self._identity = session, table, identity
        self.person = person
        """Who runs this process, and the role of the session; empty where there is no trail."""

    def __call__(self, done: int, stayed: int = 0) -> None:
        """Add so many messages that it was done to, and so many that stayed."""
        if self._table is not None:
            self._session.run(self._table.note(self._identity, done, stayed))

    def end(self, state: str, result: str = "") -> list[str]:
        """Note how it ended, and tell what others did to the same queue meanwhile."""
        if self._table is None:
            return []
        self._session.run(self._table.end(self._identity, state, result))
        return beside(self._session, self._table, self._identity)


def begin(session: Session, addresses: Addresses, identity: str, act: Act) -> OperationsTable:
    """Note that an operation begins; create the log if it is missing. Raises StorageError, NotLookedAtError."""
    table = operations_table(addresses)
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
    note = _begun(session, addresses, identity or secrets.token_hex(8), act, warn)
    try:
        yield note
    except BaseException as error:
        note.end(FAILED, f"{type(error).__name__}: {error}")
        raise
    for line in note.end(DONE):
        warn(line)


def _begun(
    session: Session, addresses: Addresses, identity: str, act: Act, warn: Callable[[str], None]
) -> Note:
    if addresses.backend != "postgresql":
        return Note(session, None, identity, "")
    person = person_here(session, addresses)
    try:
        table = begin(session, addresses, identity, act._replace(person=person))
    except RowbusError as error:
        name = operations_table(addresses).address
        warn(f"this is not noted in {name}: {error}; `rowbus schema grants --web` prints the grant")
        return Note(session, None, identity, person)
    return Note(session, table, identity, person)


def beside(session: Session, table: OperationsTable | None, identity: str) -> list[str]:
    """Tell what others did to the same queue while an operation ran: a sentence each; none without a trail."""
    return [] if table is None else [_told(row) for row in session.run(table.beside(identity))]


def _told(row: OperationRow) -> str:
    if row.is_running:
        return f"{row.person} began this at {row.began:%H:%M:%S} UTC, and it runs: {row.action}, {row.done:,} done."
    return (
        f"{row.person} worked here, too, from {row.began:%H:%M:%S} UTC on: {row.action}, {row.done:,} done."
    )


def person_here(session: Session, addresses: Addresses) -> str:
    """Name who runs this process, and the role of the session."""
    return f"{_user()}, role {session.run(operations_table(addresses).role())}"


def _user() -> str:
    """Return who runs this process, as the system knows; who called sudo, if that did."""
    name = os.environ.get("SUDO_USER")
    if name:
        return f"{name} (sudo)"
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as a number
        return f"user {os.getuid()}"
