"""The log of operations: its table, on every database, and the trail that the page and the commands leave in it.

Invariants: nothing here names a database. An operation is noted before it does anything; what a transaction did is
noted in that transaction, so the log has no more and no less than what was done. A command that may not note does its
work all the same, and says that nothing is noted.
"""

from __future__ import annotations

import os
import pwd
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.backends import bound_table
from rowbus.database.statements import BlockingSession, Statement, run_now
from rowbus.errors import RowbusError
from rowbus.errors.strangers import writable
from rowbus.transport.queues.catalog.looking import is_there
from rowbus.transport.queues.installer import make_table
from rowbus.transport.queues.records.table import RecordStatements

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from datetime import datetime

    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses

OPERATIONS: Final = "Rowbus.Operations"
"""The name of the table, in the schema of names that are given without one."""

RUNNING: Final = "running"
STOPPING: Final = "stopping"
"""A person asked to stop it; its work looks between two transactions."""

DONE, FAILED = "done", "failed"


class OperationRow(NamedTuple):
    """An operation as the table has it; times are aware, by the database's clock.

    `meant` is how many messages it was to be done to, if that was known; `noted` is when its work was last heard of.
    """

    id: str
    person: str
    action: str
    queue: str
    subject: str
    meant: int | None
    done: int
    stayed: int
    state: str
    result: str
    began: datetime
    noted: datetime

    @property
    def is_running(self) -> bool:
        """Whether it has not ended, as far as is noted."""
        return self.state in {RUNNING, STOPPING}


class OperationsTable(RecordStatements):
    """Statements on the log of operations; each runs in its runner's transaction."""

    folder = "transport/operations"
    variable = "operations"
    remedy = (
        "the table does not exist; the first operation of `rowbus web` creates it, if its role may, and "
        "`rowbus schema grants --web --role ROLE` prints it."
    )

    def begin(
        self, identity: str, *, person: str, action: str, queue: str, subject: str, meant: int | None
    ) -> Statement[int]:
        """Note that an operation begins, before it does anything."""
        parameters = {
            "id": identity,
            "person": person,
            "action": action,
            "queue_name": queue,
            "subject": writable(subject),
            "meant": meant,
        }
        return Statement(self._load("begin", "Failed to note an operation in"), parameters, self._counted)

    def note(self, identity: str, done: int, stayed: int) -> Statement[str | None]:
        """Add what this transaction did, and return the state: None for an operation that is not there.

        Waits for a transaction that notes something of the same operation.
        """
        raise NotImplementedError

    def end(self, identity: str, state: str, result: str) -> Statement[int]:
        """Note how an operation ended; one that has ended stays as it is."""
        parameters = {"id": identity, "state": state, "result": result}
        return Statement(self._load("end", "Failed to note an operation in"), parameters, self._counted)

    def stop(self, identity: str) -> Statement[int]:
        """Ask an operation to stop, wherever it runs; say 0 for one that does not run."""
        return Statement(
            self._load("stop", "Failed to stop an operation in"), {"id": identity}, self._counted
        )

    def role(self) -> Statement[str]:
        """Say as which role the session works."""
        raise NotImplementedError

    def beside(self, identity: str) -> Statement[list[OperationRow]]:
        """Find what others did to the same queue while an operation ran, or has run until now; the latest first.

        What runs and was not heard of for an hour is taken for one whose process was killed.
        """
        raise NotImplementedError

    def list(self, most: int) -> Statement[list[OperationRow]]:
        """Return the latest operations, the latest first."""
        raise NotImplementedError

    def look(self, identity: str) -> Statement[OperationRow | None]:
        """Return one operation, None if it is not there."""
        raise NotImplementedError


def operations_table(addresses: Addresses) -> OperationsTable:
    """Return the statements on the log of operations of a database. No I/O."""
    address = addresses.for_endpoint(OPERATIONS)
    table: OperationsTable = bound_table("rowbus.transport.operations", "OperationsTable", address)
    return table


class Act(NamedTuple):
    """The act of one person: on which queue, on which of its messages, and on how many, if that is known."""

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
        """The user of this process, and the role of the session; empty where there is no trail."""

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
