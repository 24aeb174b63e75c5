"""SQL Server's implementation of `rowbus.database.backends.Backend`, and one of its databases, for every session.

Invariants: no I/O but where the catalog of a user's connection must be asked for, which happens when an address is
first needed; no driver is imported here; every connection made here is in autocommit mode and reads committed rows
only, under any settings of the driver's pool or the login.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from rowbus.database.adaptation import KnownColumns
from rowbus.database.pool import SessionPool
from rowbus.database.sqlserver import borrowed, driver
from rowbus.database.sqlserver.async_session import AsyncSession
from rowbus.database.sqlserver.connection import Session
from rowbus.database.sqlserver.faults import drivers_fault, translate_connecting
from rowbus.database.sqlserver.receive_session import MessageTransaction, ReceiveSession
from rowbus.database.sqlserver.threads import SessionThread
from rowbus.database.sqlserver.transactions import BABELFISH, SETTINGS
from rowbus.messages.address import DEFAULT_DELAYED_SUFFIX
from rowbus.messages.sqlserver_address import DEFAULT_SCHEMA, SqlServerAddress, SqlServerAddresses

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from rowbus.database.sqlserver.driver import DriverConnection
    from rowbus.errors import RowbusError

S = TypeVar("S", bound=Session)


class Database:
    """Where the queues live."""

    notifies = False
    """There is no LISTEN: receivers look for messages every `peek_delay`."""
    has_logs = False
    """The event log is PgQ's, which is PostgreSQL's."""

    def keeps_sessions(self) -> bool:
        """Return True: nothing is listened for here."""
        return True

    def __init__(self, url: str) -> None:
        """Take a URL as `dsn` describes it; raises ConfigurationError if it cannot be read. No I/O, no driver yet."""
        self.source = driver.parse(url)
        self._modules: frozenset[str] = frozenset()
        self._known_columns = KnownColumns()
        self._is_babelfish: bool | None = None  # not asked yet

    @property
    def identity(self) -> str:
        """A text that two of the same database have in common."""
        return repr(self.source)

    @property
    def name(self) -> str:
        """Its name for people, without secrets."""
        return self.source.name

    @property
    def server(self) -> str:
        """The same: SQL Server is never seen to have a full disk."""
        return self.name

    async def connect(self) -> AsyncSession:
        """Open an asynchronous session; raises ConnectionLostError, or ConfigurationError when there is no driver."""
        return AsyncSession(*await self._open_in_thread(Session))

    async def connect_reader(self) -> AsyncSession:
        """Open an asynchronous session; raises as `connect`."""
        return await self.connect()

    async def connect_sender(self) -> AsyncSession:
        """Open an asynchronous session; raises as `connect`."""
        return await self.connect()

    async def connect_receiver(self) -> ReceiveSession:
        """Open the session of one receiving slot; raises as `connect`."""
        return ReceiveSession(*await self._open_in_thread(MessageTransaction))

    @contextmanager
    def session(self) -> Generator[Session]:
        """Open a synchronous session and close it again; raises as `connect`."""
        session = self._open(Session)
        try:
            yield session
        finally:
            session.close()

    def pool(self, size: int) -> SessionPool:
        """Return a pool that lends at most `size` sessions at a time. No I/O."""
        return SessionPool(self, size=size)

    def fault(self, error: Exception) -> RowbusError | None:
        """Return our error for one that the driver raised to users of a session's connection; None for others."""
        return drivers_fault(error, self._modules)

    async def _open_in_thread(self, kind: Callable[[DriverConnection], S]) -> tuple[S, SessionThread]:
        opening = _Opening(lambda: self._open(kind))
        thread = SessionThread(opening)
        try:
            return await thread.make(opening.open), thread
        except BaseException:  # cancelled, perhaps, while the thread still connects: it closes what it gets
            await thread.end(patience=0)
            raise

    def _open(self, kind: Callable[[DriverConnection], S]) -> S:
        try:
            session = kind(driver.connect(self.source))
        except Exception as error:  # every driver has errors of its own
            raise translate_connecting(error, self.source) from error
        self._modules |= session.modules
        session.catalog = self.source.catalog
        session.share(self._known_columns)
        try:
            session.control(SETTINGS)
            if isinstance(session, MessageTransaction):
                session.takes_turns = self._asks_turns(session)
        except BaseException:
            session.close()
            raise
        return session

    def _asks_turns(self, session: Session) -> bool:
        """Say whether receives have to take turns, asking the first time: Babelfish's READPAST passes over nothing."""
        if self._is_babelfish is None:
            ((place,),) = session.ask(BABELFISH)
            self._is_babelfish = int(place) > 0
        return self._is_babelfish


class _Opening(Generic[S]):
    """A session that is being opened, perhaps in vain."""

    def __init__(self, opener: Callable[[], S]) -> None:
        self._opener = opener
        self._session: S | None = None

    def open(self) -> S:
        self._session = self._opener()
        return self._session

    def interrupt(self) -> None:
        """Interrupt what the session does; a connection that is being made cannot be interrupted."""
        if self._session is not None:
            self._session.interrupt()

    def close(self) -> None:
        if self._session is not None:
            self._session.close()


class BorrowedAddresses:
    """Addresses in the catalog that a user's connection is in, which is found out when the first is made."""

    backend = SqlServerAddress.backend

    def __init__(self, schema: str | None, connection: object) -> None:
        """Take the schema of what is named without one, None for the default. No I/O."""
        self.schema = schema or DEFAULT_SCHEMA
        self._connection = connection

    @property
    def catalog(self) -> str:
        """The catalog of what is named without one."""
        return self._found.catalog

    @cached_property
    def _found(self) -> SqlServerAddresses:
        return SqlServerAddresses(self.schema, borrowed.catalog_of(self._connection))

    def parse(self, text: str) -> SqlServerAddress:
        """Read an address from the wire; see `SqlServerAddress.parse`."""
        return self._found.parse(text)

    def from_user(self, text: str) -> SqlServerAddress:
        """Read an address that a person typed; see `SqlServerAddress.from_user`."""
        return self._found.from_user(text)

    def for_endpoint(self, name: str, *, qualifier: str = "", discriminator: str = "") -> SqlServerAddress:
        """Turn an endpoint's name into an address; see `SqlServerAddress.for_endpoint`."""
        return self._found.for_endpoint(name, qualifier=qualifier, discriminator=discriminator)

    def validate_endpoint_name(self, name: str, *, delayed_suffix: str = DEFAULT_DELAYED_SUFFIX) -> None:
        """Refuse names that are impossible or too long; see `SqlServerAddresses.validate_endpoint_name`."""
        self._found.validate_endpoint_name(name, delayed_suffix=delayed_suffix)


def addresses_of(url: str, schema: str | None) -> SqlServerAddresses:
    """Return how names become addresses in the catalog of a URL. Raises ConfigurationError if it cannot be read."""
    return SqlServerAddresses(schema or DEFAULT_SCHEMA, driver.parse(url).catalog)


def open_database(url: str) -> Database:
    """Return the database that a URL means. Raises ConfigurationError if it cannot be read."""
    return Database(url)


def borrow(connection: object, schema: str | None) -> tuple[Callable[[], Session], BorrowedAddresses]:
    """Return what gives a session on the user's connection, and how names become addresses in its catalog."""
    return borrowed.borrow(connection), BorrowedAddresses(schema, connection)


def borrow_async(
    connection: object, schema: str | None
) -> tuple[Callable[[], Awaitable[AsyncSession]], BorrowedAddresses]:
    """Return the same for use from asynchronous code."""
    return borrowed.borrow_async(connection), BorrowedAddresses(schema, connection)
