"""The user's own connection to SQL Server as a session of ours.

Accepted: connections of mssql-python, pymssql and pyodbc, SQLAlchemy's connections and ORM sessions over these, and the
connection that a handler gets. Libraries are recognised by their names and shapes, not imported. There is no
asynchronous driver to speak of, so an `AsyncClient` takes the same connections and makes each call in a thread.

Invariant: the connection stays the user's: nothing is committed, rolled back, closed or configured.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from rowbus.database.adaptation import KnownColumns
from rowbus.database.sqlserver.async_session import AsyncHandlerConnection, AsyncSession
from rowbus.database.sqlserver.connection import Session
from rowbus.database.sqlserver.handler_connection import HandlerConnection
from rowbus.database.sqlserver.statements import load
from rowbus.database.sqlserver.threads import SharedThreads
from rowbus.database.statements import Statement
from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rowbus.database.sqlserver.driver import DriverConnection
    from rowbus.database.statements import Rows

DRIVERS = frozenset({"mssql_python", "pymssql", "pyodbc"})
_known_columns: WeakKeyDictionary[Any, KnownColumns] = WeakKeyDictionary()  # by the user's connections
_DATABASE_NAME = 16  # ODBC's SQL_DATABASE_NAME, which a driver knows without asking


def borrow(connection: object) -> Callable[[], Session]:
    """Return what gives a session on the user's connection, for one use at a time.

    SQLAlchemy's is looked up for each use: an ORM session may have another connection in each transaction. Raises
    ConfigurationError when it is no such connection (over another driver: at the first use).
    """
    if _is_drivers(connection) and not isinstance(connection, AsyncHandlerConnection):
        session = _session(connection)
        return lambda: session
    if not _is_alchemy(connection) or _is_asynchronous(connection):
        raise _unusable(connection, "Client")
    return lambda: _session(_driver(connection))


def borrow_async(connection: object) -> Callable[[], Awaitable[AsyncSession]]:
    """Return what gives an asynchronous session on the user's connection, for one use at a time; see `borrow`."""
    if isinstance(connection, AsyncHandlerConnection):
        return _always(AsyncSession(_session(connection.blocking), _Elsewhere(connection)))
    if _is_drivers(connection):
        return _always(AsyncSession(_session(connection), SharedThreads()))
    if not _is_alchemy(connection) or _is_asynchronous(connection):
        raise _unusable(connection, "AsyncClient")

    async def look_up() -> AsyncSession:
        threads = SharedThreads()
        return AsyncSession(_session(await threads.make(lambda: _driver(connection))), threads)

    return look_up


def catalog_of(connection: object) -> str:
    """Return the catalog that the user's connection is in; asks the server where neither it nor the driver knows.

    Blocks then, for one round trip, in the user's transaction.
    """
    handlers = connection.blocking if isinstance(connection, AsyncHandlerConnection) else connection
    if isinstance(handlers, HandlerConnection) and handlers.catalog:
        return handlers.catalog
    drivers: Any = handlers if _is_drivers(handlers) else _driver(handlers)
    if hasattr(drivers, "getinfo"):
        return str(drivers.getinfo(_DATABASE_NAME))
    ((name,),) = _session(drivers).run(
        Statement(load("database/sql/sqlserver/current_catalog.sql"), {}, _as_they_are)
    )
    return str(name)


class _Elsewhere(SharedThreads):
    """The thread of the session that a handler's connection belongs to."""

    def __init__(self, connection: AsyncHandlerConnection) -> None:
        self._connection = connection

    async def make(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - what the call returns
        """Make the call there."""
        return await self._connection.make(call)


def _as_they_are(rows: Rows, _count: int) -> Rows:
    return rows


def _always(session: AsyncSession) -> Callable[[], Awaitable[AsyncSession]]:
    async def same() -> AsyncSession:
        return session

    return same


def _session(connection: Any) -> Session:  # noqa: ANN401 - any of several drivers'
    session = Session(connection, borrowed=True)
    with suppress(
        TypeError
    ):  # a driver's connection may allow no weak references: its clients ask for themselves
        session.share(_known_columns.setdefault(connection, KnownColumns()))
    return session


def _driver(borrowed: Any) -> DriverConnection:  # noqa: ANN401 - SQLAlchemy's, not imported
    """Return the driver's connection, in SQLAlchemy's transaction, begun as any statement through it would."""
    connection = borrowed.connection() if _is_orm_session(borrowed) else borrowed
    if not connection.in_transaction():
        connection.begin()
    driver: DriverConnection = connection.connection.driver_connection
    if not _is_drivers(driver):
        raise _unusable(borrowed, "Client")
    return driver


def _is_drivers(connection: object) -> bool:
    return isinstance(connection, HandlerConnection | AsyncHandlerConnection) or (
        type(connection).__module__.partition(".")[0] in DRIVERS and hasattr(connection, "cursor")
    )


def _is_alchemy(connection: object) -> bool:
    return all(hasattr(connection, verb) for verb in ("begin", "begin_nested"))


def _is_asynchronous(connection: object) -> bool:
    return hasattr(connection, "sync_connection") or hasattr(connection, "aclose")


def _is_orm_session(connection: object) -> bool:
    return hasattr(connection, "flush")


def _unusable(connection: object, client: str) -> ConfigurationError:
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    return ConfigurationError(
        f"{client} needs a connection of mssql-python, pymssql or pyodbc, or a synchronous SQLAlchemy connection or "
        f"session over one of them; it was given a {kind}."
    )
