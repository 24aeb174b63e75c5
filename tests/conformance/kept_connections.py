"""Connections of SQL Server's tests: each is noted, and one that is closed is kept for those to come.

A server that has just begun a session takes long over its first statements: Babelfish builds its grammar's tables and
its catalogue's cache anew in each, so that a test with a dozen sessions would wait for little else. What is kept was
reset by the server, as a driver's pool has it done: options, temporary tables, locks. What does not answer, is in a
transaction, or was refused a lock of its session (Babelfish dies of the fourth) is closed in earnest; so is the
stand-in's.

Invariants: what is kept is no session of a test any more; it is used by one thread at a time.
"""

from __future__ import annotations

import atexit
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest

from rowbus.database.sqlserver import driver
from rowbus.database.sqlserver.driver import DataSource, DriverConnection

_RESET = 1246  # SQL_COPT_SS_RESET_CONNECTION: the server resets the session before the next statement
_kept = defaultdict[str, list[Any]](list)  # by connection string


class ConnectionRegister:
    """The connections that a test has made through the driver's seam, with the numbers of their sessions.

    So a test that ends sessions ends its own, whatever else runs on the server.
    """

    def __init__(self, connect: Callable[[DataSource], DriverConnection]) -> None:
        self._connect = connect
        self._open = list[tuple[Any, int]]()

    def connect(self, source: DataSource) -> DriverConnection:
        kept = _kept[source.connection_string]
        connection: Any = _living(kept) or self._new(source)
        noted = connection, connection.session
        self._open.append(noted)
        connection.close = partial(self._close, noted, kept)
        made: DriverConnection = connection
        return made

    def forget(self) -> None:
        """Take what is there by now for others' than the test's."""
        self._open.clear()

    def sessions(self) -> list[int]:
        """Return the numbers of those that are open."""
        return [session for connection, session in self._open if not getattr(connection, "closed", False)]

    def _new(self, source: DataSource) -> DriverConnection:
        connection: Any = self._connect(source)
        connection.session = int(_ask(connection, "select @@spid"))
        connection.close_in_earnest = connection.close
        connection.cursor = partial(_watched, connection, connection.cursor)
        connection.was_refused = False
        return connection  # type: ignore[no-any-return]  # as the driver's seam has it

    def _close(self, noted: tuple[Any, int], kept: list[Any]) -> None:
        connection, _session = noted
        with suppress(ValueError):  # forgotten
            self._open.remove(noted)
        connection.close = connection.close_in_earnest
        if _is_reset(connection):
            kept.append(connection)
        else:
            connection.close()


@contextmanager
def noting_connections(monkeypatch: pytest.MonkeyPatch) -> Generator[ConnectionRegister]:
    """Note each connection that is made through the driver's seam, and keep it when it is closed."""
    made = ConnectionRegister(driver.connect)
    with monkeypatch.context() as patched:
        patched.setattr(driver, "connect", made.connect)
        yield made


def _living(kept: list[Any]) -> Any:  # noqa: ANN401 - the driver's
    """Take one that still answers, or None: a test may have had one ended that was closed just then."""
    while kept:
        connection = kept.pop()
        if _is_reset(connection):
            return connection
    return None


def _is_reset(connection: Any) -> bool:  # noqa: ANN401 - the driver's
    """Have the server reset a session; say whether it did."""
    native = getattr(connection, "_conn", None)  # Microsoft's
    if native is None or connection.closed or connection.was_refused:
        return False
    try:
        native.set_attr(_RESET, 1)
        return int(_ask(connection, "select @@trancount")) == 0
    except Exception:  # noqa: BLE001 - the driver's: its session has ended, or has to
        return False


def _watched(connection: Any, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - the driver's
    """Make a cursor that tells if it is refused a lock of its session."""
    cursor = make()
    execute, fetchall = cursor.execute, cursor.fetchall
    asks = False

    def watched(operation: str, *parameters: object) -> object:
        nonlocal asks
        asks = "@LockOwner = N'Session'" in operation
        return execute(operation, *parameters)

    def refused() -> Sequence[Sequence[object]]:
        rows: Sequence[Sequence[object]] = fetchall()
        connection.was_refused |= asks and not (rows and rows[0][0])
        return rows

    cursor.execute, cursor.fetchall = watched, refused
    return cursor


def _ask(connection: Any, query: str) -> Any:  # noqa: ANN401 - as the driver has it
    cursor = connection.cursor()
    try:
        cursor.execute(query)
        return cursor.fetchall()[0][0]
    finally:
        cursor.close()


@atexit.register
def _end() -> None:
    """Close what is kept, before the driver's own end."""
    for connections in _kept.values():
        for connection in connections:
            with suppress(Exception):  # it has ended
                connection.close()
