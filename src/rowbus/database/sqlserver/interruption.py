"""Interrupting a call of the driver from another thread: the one thing that may be done to a connection from beside it.

ODBC allows it while a statement is at work, and only then: a driver that is asked to cancel what is just being freed
reads memory that is gone, and takes the process down. Microsoft's frees a statement's handle also by itself, at the end
of a call that failed, as one that is interrupted does.

Invariant: no handle is freed while it is cancelled, and none is cancelled that was freed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.database.sqlserver.driver import DriverConnection, DriverCursor


class Interruption:
    """Makes, frees and interrupts the cursors of one connection."""

    def __init__(self, connection: DriverConnection) -> None:
        """Begin without a cursor. No I/O."""
        self._connection = connection
        self._lock = Lock()
        self._cursor: Any = None  # the one at work
        self._is_over = False

    def cursor(self) -> DriverCursor:
        """Make a cursor, whose handle the driver frees only while nobody cancels."""
        cursor: Any = self._connection.cursor()
        reset = getattr(cursor, "_reset_cursor", None)  # mssql-python's, after an error
        if reset is not None:
            cursor._reset_cursor = partial(self._undisturbed, WeakMethod(reset))  # noqa: SLF001 - no public one
        made: DriverCursor = cursor
        return made

    def begin(self, cursor: DriverCursor) -> DriverCursor:
        """Note which cursor is at work from now on, and return it."""
        self._cursor = cursor
        return cursor

    def free(self, cursor: DriverCursor) -> None:
        """Close a cursor; one of a broken connection may refuse, and is gone all the same."""
        with self._lock:
            if self._cursor is cursor:
                self._cursor = None
            with suppress(Exception):  # every driver has errors of its own, and none of them matters here
                cursor.close()

    def interrupt(self) -> None:
        """Ask the server to give up what it is doing, from another thread; where the driver can, and if it does."""
        with self._lock:
            if self._is_over:
                return
            handle = getattr(self._cursor, "hstmt", None)  # mssql-python's; it has no public verb for this
            cancel = getattr(handle, "_cancel", None) or getattr(self._cursor, "cancel", None)
            if cancel is not None:
                cancel()

    def end(self) -> None:
        """Let nobody interrupt from now on, because the connection is about to be closed."""
        with self._lock:
            self._is_over = True

    def _undisturbed(self, reset: Callable[[], Callable[[], object] | None]) -> None:
        with self._lock:
            work = reset()
            if work is not None:
                work()
