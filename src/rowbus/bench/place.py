"""Where a measurement takes place: a schema with a name of its own, which is dropped in any case, also after a signal.

Invariants: nothing is dropped that was not created here; after Ctrl-C, SIGTERM and errors the schema is gone, or an
error names it and says how to drop it; the process's own handling of signals is put back afterwards.
"""

from __future__ import annotations

import secrets
import signal
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rowbus.bench import statements
from rowbus.database.backends import open_database
from rowbus.database.statements import script
from rowbus.errors import PermissionDeniedError, RowbusError, StorageError
from rowbus.messages.address import QueueAddress
from rowbus.running.signals import SIGNALS
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from types import FrameType

    from rowbus.database.sessions import AsyncSession, Database, Session
    from rowbus.transport.queues.diagnosis import ServerFacts


@contextmanager
def terminated_like_interrupted() -> Generator[None]:
    """Have SIGTERM do what Ctrl-C does: raise KeyboardInterrupt, so that what is to be cleaned up is."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def undisturbed() -> Generator[None]:
    """Keep signals back until the block has ended; then they do what they do."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C would do now, also where that is ignored: in the background of a script."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        raise KeyboardInterrupt
    handler(signal.SIGINT, frame)


QUEUE: Final = "bench"
APPLICATION_NAME: Final = "rowbus bench"


@dataclass(frozen=True)
class Place:
    """The schema of a measurement, and how to reach it.

    `is_direct`: sessions keep their connection to the server. Behind a pooler they do not, and hear no notifications.
    """

    dsn: str
    database: Database
    schema: str
    is_direct: bool

    @property
    def queue(self) -> QueueAddress:
        """The queue that most is measured with."""
        return self.address(QUEUE)

    def address(self, table: str) -> QueueAddress:
        """Return the address of a table here."""
        return QueueAddress(self.schema, table)

    @contextmanager
    def session(self) -> Generator[Session]:
        """Open a session, and close it again; raises a RowbusError also for the driver's own errors within."""
        with self.database.session() as session:
            self._keep_no_plans(session.connection)
            with _our_errors(self.database):
                yield session

    @asynccontextmanager
    async def async_session(self) -> AsyncGenerator[AsyncSession]:
        """Do the same asynchronously."""
        session = await self.database.connect()
        self._keep_no_plans(session.connection)
        try:
            with _our_errors(self.database):
                yield session
        finally:
            await session.close()

    def _keep_no_plans(self, connection: Any) -> None:  # noqa: ANN401 - the driver's own
        if not self.is_direct:
            connection.prepare_threshold = None


@contextmanager
def place_of_its_own(dsn: str, name: str, server: ServerFacts) -> Generator[Place]:
    """Create the schema and its queues; drop it at the end. Raises PermissionDeniedError for a role that may not."""
    database = _open(dsn, is_direct=True)
    is_created = False
    try:
        with undisturbed():  # an interruption must not come between the schema and the note that it is there
            _create(name, database, server)
            is_created = True
        yield _prepared(Place(dsn, database, name, is_direct=True))
    finally:
        if is_created:
            with undisturbed():
                _drop(name, database)


def new_name() -> str:
    """Return a name that no schema has."""
    return f"rowbus_bench_{secrets.token_hex(5)}"


def _open(dsn: str, *, is_direct: bool) -> Database:
    return open_database(dsn, application_name=APPLICATION_NAME, prepared_statements=is_direct)


def _create(name: str, database: Database, server: ServerFacts) -> None:
    try:
        with database.session() as session:
            session.run(statements.create_schema(name))
    except PermissionDeniedError as error:
        remedy = script(statements.grant_create(server.database, server.role))
        raise PermissionDeniedError(
            f"Nothing was measured: that takes a schema made for it, and {server.role} may not create one. As the "
            f"owner of the database: {remedy}",
            sqlstate=error.sqlstate,
            transient=False,
        ) from error


def _prepared(place: Place) -> Place:
    """Make the queues and tables of a measurement; return the place as it is reached."""
    with place.session() as session:
        for name in (QUEUE, "error"):
            session.run_all(queue_table(place.address(name)).create())
        session.run(statements.create_orders(place.schema))
    is_direct = place.database.keeps_sessions()
    return Place(place.dsn, _open(place.dsn, is_direct=is_direct), place.schema, is_direct)


def _drop(name: str, database: Database) -> None:
    try:
        with database.session() as session:
            session.run(statements.drop_schema(name))
    except RowbusError as error:
        remedy = script(statements.drop_schema(name))
        raise StorageError(
            f"{error} The schema of the measurement is left; drop it: {remedy}",
            sqlstate=None,
            transient=False,
        ) from error


@contextmanager
def _our_errors(database: Database) -> Generator[None]:
    try:
        yield
    except Exception as error:
        fault = database.fault(error)
        if fault is None:
            raise
        raise fault from error
