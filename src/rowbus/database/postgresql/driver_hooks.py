"""All that Rowbus uses of psycopg beyond its documentation: what it is, and what breaks without it.

psycopg has no public way to hear of its DEALLOCATE ALL, to act before a statement of any cursor, or to pipeline without
a cursor for each statement. The names with an underscore are used in this module only; `UNDOCUMENTED` lists them and
the others, and `tests/database/test_driver_hooks.py` compares them with the psycopg that is installed.

Invariant: what a subclass does in `before_query` happens in the same turn as the statement, before it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg._cursor_base import BaseCursor
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.rows import TupleRow
from psycopg.waiting import Wait

if TYPE_CHECKING:
    from psycopg.abc import PQGen, Query
    from psycopg.pq.abc import PGconn

UNDOCUMENTED: Final = {
    "AsyncConnection._start_query": "what a handler does through psycopg's own cursors outlives its failed attempt",
    "Connection._start_query": "what a `def` handler does outlives its failed attempt",
    "AsyncCursor._start_query": "what a handler leaves in its session (LISTEN, temporary tables) is there for the next",
    "Cursor._start_query": "what a `def` handler leaves in its session is there for the next",
    "AsyncConnection._deallocate": "a message fails now and then with 'prepared statement … does not exist'",
    "AsyncConnection._prepared": "a session whose plans a handler has deallocated fails for good",
    "AsyncConnection._exec_command": "the savepoint of an attempt cannot be set",
    "Connection._exec_command": "the savepoint of a `def` handler's attempt cannot be set",
    "AsyncConnection._pipeline": "a handler's pipeline breaks that comes second in a batch",
    "Connection._pipeline": "a `def` handler's pipeline breaks that comes second in a batch",
    "AsyncConnection._adapters": "what a handler registers for its connection's values is there for the next",
    "Connection._adapters": "what a `def` handler registers for its connection's values is there for the next",
    "AsyncConnection.wait": "no receiver can run anything",
    "Connection.wait": "a `def` handler cannot begin a nested transaction",
    "AsyncConnection.lock": "two statements of one connection may overlap",
    "Connection.lock": "two statements of one connection may overlap",
    "Transformer.dump_sequence": "no value can be sent but text, bytes and numbers",
    "Transformer.set_pgresult": "no answer can be read",
    "Transformer.load_rows": "no answer can be read",
    "errors.error_from_result": "the failures of statements cannot be told apart",
}
"""Consequences, by hook, if one of these is gone, or is no longer called as it is now."""


_WAYS: Final = ("row_factory", "cursor_factory", "server_cursor_factory", "prepare_threshold")
_ways: Final = attrgetter(*_WAYS)


class _Hooks(psycopg.BaseConnection[TupleRow]):
    """Calls that both kinds of connections make to a subclass."""

    def before_query(self) -> PQGen[None]:
        """Run what has to come before a statement, of any cursor; called with the connection's lock held."""
        yield from ()

    def note_query(self, query: object) -> None:
        """Hear what a cursor is about to run."""

    def note_deallocate_all(self) -> None:
        """Hear that the driver is about to deallocate all prepared statements, or to queue that."""

    def commands(self, *texts: bytes) -> PQGen[None]:
        """Run commands without parameters in one round trip; in a pipeline of the driver's, queue them."""
        if len(texts) > 1 and not self._pipeline:
            yield from _run_script(self.pgconn, b"; ".join(texts))
            return
        for text in texts:
            yield from self._exec_command(text)

    @property
    def ways(self) -> tuple[object, ...]:
        """Settings of its owner: how it makes cursors and rows, and when it prepares."""
        ways: tuple[object, ...] = _ways(self)
        return ways

    def restore(self, ways: tuple[object, ...], *, adapts: bool) -> None:
        """Put back what was set of it; with `adapts`, also what was registered for its values."""
        if _ways(self) != ways:
            for name, value in zip(_WAYS, ways, strict=True):
                setattr(self, name, value)
        if adapts:
            self._adapters = None

    def _start_query(self) -> PQGen[None]:
        yield from self.before_query()
        yield from super()._start_query()

    def _deallocate(self, name: bytes | None) -> PQGen[None]:
        if name is None:
            self.note_deallocate_all()
        yield from super()._deallocate(name)


def _run_script(pgconn: PGconn, text: bytes) -> PQGen[None]:
    """Run several commands as one text; raises for the first that fails, which is the last that runs."""
    pgconn.send_query(text)
    while pgconn.flush():
        yield Wait.W
    failed = None
    while True:
        while pgconn.is_busy():
            yield Wait.R
            pgconn.consume_input()
        if (result := pgconn.get_result()) is None:
            break
        failed = result if result.status == ExecStatus.FATAL_ERROR else None
    if failed is not None:
        raise error_from_result(failed)


def forget_plans(connection: psycopg.AsyncConnection[Any]) -> None:
    """Have the driver make its plans anew: the server has lost one."""
    connection._prepared.clear()  # noqa: SLF001 - see UNDOCUMENTED  # pyright: ignore[reportPrivateUsage]


class _TellingCursor(BaseCursor[Any, TupleRow]):
    """Calls that both kinds of cursors make to their connection, one of ours."""

    def _start_query(self, query: Query | None = None) -> PQGen[None]:
        if query is not None:
            self._conn.note_query(query)
        yield from super()._start_query(query)


class TellingCursor(_TellingCursor, psycopg.AsyncCursor[TupleRow]):
    """A cursor of psycopg's that tells its connection what it runs."""


class SyncTellingCursor(_TellingCursor, psycopg.Cursor[TupleRow]):
    """The same, synchronous."""


class HookedConnection(_Hooks, psycopg.AsyncConnection[TupleRow]):
    """A connection of psycopg's that tells a subclass of its statements, and of the plans it gives up."""


class SyncHookedConnection(_Hooks, psycopg.Connection[TupleRow]):
    """The same, synchronous."""
