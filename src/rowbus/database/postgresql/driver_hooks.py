"""All that Rowbus uses of psycopg beyond its documentation: what it is, and what breaks without it.

psycopg has no public way to hear of its DEALLOCATE ALL, to act before a statement of any cursor, to send statements of
ours in that one's round trip, or to pipeline without a cursor for each. The names with an underscore are used in this
module only; `UNDOCUMENTED` lists them and the others, and `tests/database/test_driver_hooks.py` compares them with the
psycopg that is installed.

Invariant: what a subclass does in `before_query` happens in the same turn as the statement, before it.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import psycopg
from psycopg._cursor_base import BaseCursor
from psycopg._preparing import Prepare
from psycopg.rows import TupleRow

from rowbus.database.statements import script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg._queries import PostgresQuery
    from psycopg.abc import Params, PQGen, Query
    from psycopg.pq.abc import PGresult

    from rowbus.database.postgresql.roundtrip import Roundtrips
    from rowbus.database.statements import Statement

UNDOCUMENTED: Final = {
    "AsyncConnection._start_query": "what a handler does through psycopg's own cursors outlives its failed attempt",
    "Connection._start_query": "what a `def` handler does outlives its failed attempt",
    "AsyncCursor._start_query": "what a handler leaves in its session (LISTEN, temporary tables) is there for the next",
    "Cursor._start_query": "what a `def` handler leaves in its session is there for the next",
    "AsyncCursor._execute_gen": "a handler's first statement takes two round trips, its savepoint being another",
    "Cursor._execute_gen": "a `def` handler's first statement takes two round trips",
    "AsyncCursor._maybe_prepare_gen": "no handler can run a statement that has values",
    "AsyncCursor._get_prepared": "no handler can run a statement that has values",
    "AsyncCursor._execute_send": "no handler can run a statement that has values",
    "AsyncCursor._send_query_prepared": "no handler can run a statement that has values, and is prepared",
    "AsyncCursor._check_results": "the failure of a handler's first statement is not raised",
    "AsyncCursor._set_results": "a handler cannot read the answer to its first statement",
    "PrepareManager.maybe_add_to_cache": "no handler can run a statement that has values",
    "PrepareManager.validate": "a handler's statement that failed is prepared all the same",
    "AsyncConnection._deallocate": "a message fails now and then with 'prepared statement … does not exist'",
    "AsyncConnection._prepared": "a session whose plans a handler has deallocated fails for good",
    "AsyncConnection._exec_command": "the savepoint of an attempt cannot be set",
    "Connection._exec_command": "the savepoint of a `def` handler's attempt cannot be set",
    "AsyncConnection._pipeline": "a handler's pipeline breaks that comes second in a batch",
    "Connection._pipeline": "a `def` handler's pipeline breaks that comes second in a batch",
    "AsyncConnection._adapters": "what a handler registers for its connection's values is there for the next",
    "Connection._adapters": "what a `def` handler registers for its connection's values is there for the next",
    "AsyncConnection._notice_handlers": "what a handler has called for notices is called for those of the next",
    "AsyncConnection._notify_handlers": "what a handler has called for notifications is called for those of the next",
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


_WAYS: Final = ("row_factory", "cursor_factory", "server_cursor_factory", "prepare_threshold", "prepared_max")
_ways: Final = attrgetter(*_WAYS)


class Ways(NamedTuple):
    """The settings of a connection that its owner has made."""

    settings: tuple[object, ...]
    """Those of cursors, rows and prepared statements."""
    names: frozenset[str]
    """The attributes that it has."""
    hearers: tuple[Sequence[object], ...]
    """The functions that it calls for notices and notifications."""


class _Hooks(psycopg.BaseConnection[TupleRow]):
    """Calls that both kinds of connections make to a subclass."""

    def before_query(self) -> PQGen[None]:
        """Run what has to come before a statement, of any cursor; called with the connection's lock held."""
        yield from ()

    def note_query(self, query: object) -> None:
        """Hear what a cursor is about to run."""

    def note_deallocate_all(self) -> None:
        """Hear that the driver is about to deallocate all prepared statements, or to queue that."""

    roundtrips: Roundtrips
    """Runs our own statements on the connection."""

    deferred: tuple[Statement[object], ...] | None = None
    """Statements that go with the one that is about to be sent; None: they come before it."""

    def run_first(self, statements: Sequence[Statement[object]]) -> PQGen[None]:
        """Run statements before the one that a cursor is about to send; in a pipeline of the driver's, queue them."""
        if self.deferred is not None:
            self.deferred += tuple(statements)
        elif self._pipeline:
            for statement in statements:
                yield from self._exec_command(script(statement).encode())
        elif statements:
            yield from self.roundtrips.together(statements)

    @property
    def pipelines(self) -> bool:
        """Whether statements go into a pipeline of the driver's."""
        return self._pipeline is not None

    def note_plan(self, query: PostgresQuery, plan: Prepare, name: bytes, results: list[PGresult]) -> None:
        """Have the driver count a statement that it has not seen run."""
        if (key := self._prepared.maybe_add_to_cache(query, plan, name)) is not None:
            self._prepared.validate(key, plan, name, results)

    @property
    def ways(self) -> Ways:
        """The settings of its owner."""
        return Ways(_ways(self), frozenset(vars(self)), tuple(map(tuple, self._hearers)))

    def restore(self, ways: Ways, *, adapts: bool) -> None:
        """Put back what was set of it; with `adapts`, also what was registered for values, called, or kept with it."""
        if _ways(self) != ways.settings:
            for name, value in zip(_WAYS, ways.settings, strict=True):
                setattr(self, name, value)
        if not adapts:
            return
        self._adapters = None
        for hearers, before in zip(self._hearers, ways.hearers, strict=True):
            hearers[:] = before
        for name in vars(self).keys() - ways.names:
            if callable(getattr(type(self), name, len)):  # a method that was replaced, or nothing of ours
                delattr(self, name)

    @property
    def _hearers(self) -> tuple[list[Any], ...]:
        return self._notice_handlers, self._notify_handlers

    def _start_query(self) -> PQGen[None]:
        yield from self.before_query()
        yield from super()._start_query()

    def _deallocate(self, name: bytes | None) -> PQGen[None]:
        if name is None:
            self.note_deallocate_all()
        yield from super()._deallocate(name)


def forget_plans(connection: psycopg.AsyncConnection[Any]) -> None:
    """Have the driver make its plans anew: the server has lost one."""
    connection._prepared.clear()  # noqa: SLF001 - see UNDOCUMENTED  # pyright: ignore[reportPrivateUsage]


class _TellingCursor(BaseCursor[Any, TupleRow]):
    """Calls that both kinds of cursors make to their connection, one of ours."""

    def _start_query(self, query: Query | None = None) -> PQGen[None]:
        if query is not None:
            self._conn.note_query(query)
        yield from super()._start_query(query)

    def _execute_gen(self, query: Query, params: Params | None = None, **options: Any) -> PQGen[None]:  # noqa: ANN401 - psycopg's own
        """Run a statement; one that has values is sent with the commands that have to come before it."""
        connection = self._conn
        if params and not connection.pipelines:
            connection.deferred = ()
        try:
            yield from super()._execute_gen(query, params, **options)
        except Exception:  # of values that do not fit perhaps, or an adapter's: then nothing was sent
            yield from self._run_deferred()
            raise
        finally:
            connection.deferred = None

    def _run_deferred(self) -> PQGen[None]:
        before, self._conn.deferred = self._conn.deferred, None
        yield from self._conn.run_first(before or ())

    def _maybe_prepare_gen(
        self, pgq: PostgresQuery, *, prepare: bool | None = None, binary: bool | None = None
    ) -> PQGen[None]:
        """Do as psycopg does, but in one round trip with what was deferred."""
        connection, before = self._conn, self._conn.deferred
        plan, name = self._get_prepared(pgq, prepare) if before else (Prepare.SHOULD, b"")
        if not before or plan is Prepare.SHOULD:
            yield from self._run_deferred()
            yield from super()._maybe_prepare_gen(pgq, prepare=prepare, binary=binary)
            return
        connection.deferred = None
        send = partial(self._send_query_prepared, name) if plan is Prepare.YES else self._execute_send
        together = connection.roundtrips.together(before, partial(send, pgq, binary=binary))
        results = cast("list[PGresult]", (yield from together))
        connection.note_plan(pgq, plan, name, results)
        self._check_results(results)
        self._set_results(results)


class TellingCursor(_TellingCursor, psycopg.AsyncCursor[TupleRow]):
    """A cursor of psycopg's that tells its connection what it runs."""


class SyncTellingCursor(_TellingCursor, psycopg.Cursor[TupleRow]):
    """The same, synchronous."""


class HookedConnection(_Hooks, psycopg.AsyncConnection[TupleRow]):
    """A connection of psycopg's that tells a subclass of its statements, and of the plans it gives up."""


class SyncHookedConnection(_Hooks, psycopg.Connection[TupleRow]):
    """The same, synchronous."""
