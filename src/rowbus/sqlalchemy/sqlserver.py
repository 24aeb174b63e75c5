"""SQLAlchemy's dialect for SQL Server, on a handler's connection; it needs SQLAlchemy 2.1, which knows the driver.

The driver blocks. In an `async def` handler its calls are made in the thread of the receiving slot, and SQLAlchemy's
greenlet waits for them.

Invariant: as `dialects`: nothing is committed, rolled back or closed here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects.mssql.base import MS_2014_VERSION
from sqlalchemy.dialects.mssql.mssqlpython import MSDialect_mssqlpython
from sqlalchemy.engine import AdaptedConnection
from sqlalchemy.util import await_only

from rowbus.sqlalchemy.engines import GuardedDialect

if TYPE_CHECKING:
    from collections.abc import Sequence


class HeldMssql(GuardedDialect, MSDialect_mssqlpython):
    """The driver's dialect, on a connection that is held."""

    supports_statement_cache = True

    @classmethod
    def get_async_dialect_cls(cls, url: Any) -> Any:  # noqa: ANN401, ARG003 - SQLAlchemy's signature
        """Return the asynchronous twin."""
        return HeldAsyncMssql

    def _get_server_version_info(self, connection: Any) -> Any:  # noqa: ANN401 - SQLAlchemy's
        """Return the server's version; Babelfish, whose text the driver's dialect cannot read, claims to be of 2014."""
        said = super()._get_server_version_info(connection)  # type: ignore[no-untyped-call]  # SQLAlchemy's
        return said or MS_2014_VERSION


class HeldAsyncMssql(HeldMssql):
    """The same for sessions of `async def` handlers."""

    is_async = True
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> Any:  # noqa: ANN401 - as above
        """Return the driver's module with another `connect`."""
        return _Module(super().import_dbapi())

    def get_driver_connection(self, connection: Any) -> Any:  # noqa: ANN401 - as above
        """Return the handler's connection."""
        return connection.driver_connection


class _Module:
    """The driver's module: its errors and types, and connections that are made of a handler's."""

    def __init__(self, module: Any) -> None:  # noqa: ANN401 - a module
        self._module = module

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - all that the module has
        """Return what the driver's module calls so."""
        return getattr(self._module, name)

    def connect(self, *, async_creator_fn: Any) -> _Connection:  # noqa: ANN401 - SQLAlchemy's
        """Return the connection that the function gives."""
        return _Connection(await_only(async_creator_fn()))


class _Connection(AdaptedConnection):
    """A handler's connection, for SQLAlchemy's greenlet."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - an AsyncHandlerConnection
        self._connection = connection

    @property
    def autocommit(self) -> bool:
        """Whether each statement is a transaction of its own."""
        return bool(self._connection.autocommit)

    def cursor(self) -> _Cursor:
        """Make a cursor."""
        return _Cursor(self._connection)


class _Cursor:
    """A cursor of the DB-API whose batches run in the slot's thread; their answers are at hand."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - as above
        self._cursor = connection.blocking.cursor()
        self._make = connection.make

    @property
    def arraysize(self) -> int:
        """The number of rows that `fetchmany` returns."""
        return int(self._cursor.arraysize)

    @property
    def description(self) -> Any:  # noqa: ANN401 - as the driver describes columns
        """The columns of the current answer."""
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        """The number of rows the current answer's statement touched."""
        return int(self._cursor.rowcount)

    def execute(self, operation: str, parameters: Sequence[object] = ()) -> None:
        """Run one batch."""
        await_only(
            self._make(partial(self._cursor.execute, operation, *([parameters] if parameters else [])))
        )

    def executemany(self, operation: str, rows: Sequence[Sequence[object]]) -> None:
        """Run one batch for each row of parameters."""
        await_only(self._make(partial(self._cursor.executemany, operation, rows)))

    def fetchone(self) -> Any:  # noqa: ANN401 - a row of the driver's
        """Return the next row."""
        return self._cursor.fetchone()

    def fetchmany(self, size: int | None = None) -> Any:  # noqa: ANN401 - as above
        """Return the next rows."""
        return self._cursor.fetchmany(size)

    def fetchall(self) -> Any:  # noqa: ANN401 - as above
        """Return the remaining rows."""
        return self._cursor.fetchall()

    def nextset(self) -> bool:
        """Go on to the batch's next answer."""
        return bool(self._cursor.nextset())

    def close(self) -> None:
        """Forget the answers."""
        self._cursor.close()
