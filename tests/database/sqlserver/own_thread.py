"""A driver's connections, watched: whatever is called from another thread than the one that made them is noted.

Microsoft's driver forgives no such call: the process ends by a signal. The one thing it allows from beside is to cancel
what is at work, and even that not while it frees the statement's handle, which it does by itself after an error. Here a
call that is cancelled takes its time, so that a handle that nobody guards is freed meanwhile.

Invariant: calls and answers are the connection's own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self

from rowbus.database.sqlserver.driver import DriverConnection

WHILE_CANCELLING = 0.005  # seconds in which a handle must not be freed
_Note = Callable[[str], object]


class WatchedConnection:
    """A connection that belongs to the thread that made it."""

    __module__ = "mssql_python.connection"  # what sessions take it for

    def __init__(self, connection: DriverConnection, note: _Note) -> None:
        self.connection = connection
        self._note = note
        self._thread = threading.get_ident()
        self.at_work = threading.Event()
        """Set while its thread is in a call of the driver."""

    @property
    def closed(self) -> bool:
        return bool(getattr(self.connection, "closed", False))

    def cursor(self) -> WatchedCursor:
        return WatchedCursor(self, self.call("cursor", self.connection.cursor))

    def close(self) -> None:
        self.call("close", self.connection.close)

    def call(self, name: str, work: Callable[..., Any], *given: Any) -> Any:  # noqa: ANN401 - as the driver has it
        """Make a call of the driver, and note one that comes from beside or into the midst of another."""
        if threading.get_ident() != self._thread:
            self.complain(f"{name} in {threading.current_thread().name}")
        if self.at_work.is_set():
            self.complain(f"{name} in the midst of another call")
        self.at_work.set()
        try:
            return work(*given)
        finally:
            self.at_work.clear()

    def complain(self, what: str) -> None:
        self._note(what)


class _Handle:
    """A statement's handle, as Microsoft's driver has one."""

    def __init__(self, connection: WatchedConnection, cursor: Any) -> None:  # noqa: ANN401 - the driver's
        self._connection = connection
        self._cursor = cursor
        self._freed = threading.Event()
        self._is_cancelled = False

    def _cancel(self) -> None:
        if self._freed.is_set():
            self._connection.complain("cancel of a handle that is freed")
        self._is_cancelled = True
        try:
            self._cursor.cancel()
            self._freed.wait(WHILE_CANCELLING)
        finally:
            self._is_cancelled = False

    def free(self) -> None:
        if self._is_cancelled:
            self._connection.complain("a handle is freed while it is cancelled")
        self._freed.set()


class WatchedCursor:
    """A cursor of such a connection."""

    def __init__(self, connection: WatchedConnection, cursor: Any) -> None:  # noqa: ANN401 - the driver's
        self._connection = connection
        self._cursor = cursor
        self.hstmt = _Handle(connection, cursor)

    @property
    def description(self) -> Any:  # noqa: ANN401 - as the driver describes columns
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        return int(self._cursor.rowcount)

    def execute(self, operation: str, /, *parameters: Any) -> Self:  # noqa: ANN401 - as the DB-API has it
        return self._run(self._cursor.execute, operation, *parameters)

    def setinputsizes(self, sizes: Any) -> None:  # noqa: ANN401 - as above
        self._connection.call("setinputsizes", self._cursor.setinputsizes, sizes)

    def fetchall(self) -> Any:  # noqa: ANN401 - as above
        return self._connection.call("fetchall", self._cursor.fetchall)

    def nextset(self) -> Any:  # noqa: ANN401 - as above
        return self._connection.call("nextset", self._cursor.nextset)

    def close(self) -> None:
        self._connection.call("close of a cursor", self._cursor.close)
        self.hstmt.free()

    def _reset_cursor(self) -> None:
        self.hstmt.free()
        self.hstmt = _Handle(self._connection, self._cursor)

    def _run(self, work: Callable[..., object], *given: object) -> Self:
        try:
            self._connection.call("execute", work, *given)
        except Exception:
            self._reset_cursor()  # as Microsoft's driver does
            raise
        return self
