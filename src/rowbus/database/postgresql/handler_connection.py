"""The connection a handler gets: psycopg's, on the transaction that holds its message.

It refuses what would end that transaction, and sets a savepoint before the handler's first statement, so that a failed
attempt can be undone while the message stays in hand. A handler that never uses it costs no savepoint.

Invariant: everything a handler does through it, by any of psycopg's methods, happens after the savepoint.
"""

from __future__ import annotations

import re
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from rowbus.database.postgresql.cause import cause_values
from rowbus.database.postgresql.driver_hooks import (
    HookedConnection,
    SyncHookedConnection,
    SyncTellingCursor,
)
from rowbus.database.postgresql.readiness import complete
from rowbus.database.statements import Statement, control, load, no_rows
from rowbus.errors import HandlerError
from rowbus.running.handling import Awaiting, awaited, subject_in_hand
from rowbus.running.scope import require

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
    from typing import Self

    from psycopg.abc import PQGen

    from rowbus.running.handling import Subject
    from rowbus.running.scope import Scope

T = TypeVar("T")

SAVEPOINT = control(b"savepoint rowbus_message", "Could not set a savepoint")
UNDO = control(b"rollback to savepoint rowbus_message", "Could not undo the failed attempt")
_RELEASE = control(b"release savepoint rowbus_message", "Could not release a savepoint")

# What a handler sets, without LOCAL perhaps, is its own: neither our statements nor the next handler meet it.
# They are put back before the commit: a transaction that `begin` finds begun, in a pipeline, has the settings of then.
_RESET: tuple[Statement[object], ...] = (
    control(b"reset session authorization", "Could not become the session's own role again"),
    control(b"reset role", "Could not become the session's own role again"),
    control(b"reset all", "Could not put the session's settings back"),
)
OWN_SETTINGS: tuple[Statement[object], ...] = (
    *_RESET,
    Statement(
        load("database/sql/postgresql/prepare_session.sql", failing="Could not prepare the session again"),
        {},
        no_rows,
    ),
)
# What no setting is and outlives a transaction too; only where a handler's statements name such a thing.
_LEFT_BEHIND = Statement(
    load("database/sql/postgresql/forget_session.sql", failing="Could not clear the session"), {}, no_rows
)
_UNLOCK = control(b"select pg_catalog.pg_advisory_unlock_all()", "Could not unlock what a handler has locked")
_HINTS: Final = ("advisory_", "deallocate", "discard", "hold", "listen", "prepare", "temp")
_LASTING: Final = re.compile(r"advisory_|pg_temp|\b(deallocate|discard|hold|listen|prepare|temp|temporary)\b")
_UNPLANNING: Final = re.compile(r"\b(deallocate|discard)\b")
# Statements that would end the transaction; in the midst of a script they are only noticed afterwards.
_ENDING: Final = re.compile(
    r"\s*(commit|end|rollback|abort|prepare\s+transaction)\b(?!\s+(?:work\s+|transaction\s+)?to\b)"
)
# Of what that file sets a handler notices the time zone alone; the rest, five times as dear, waits for the commit.
_NEXT_ATTEMPT: tuple[Statement[object], ...] = (
    _RELEASE,
    *_RESET,
    control(b"set timezone = 'UTC'", "Could not set the session's time zone again"),
    SAVEPOINT,
)


_VERBS: Final = {"rollback": "roll back", "abort": "roll back"}


def _forbidden(verb: str) -> NoReturn:
    raise HandlerError(
        f"A handler may not {verb} its connection: the transaction also holds the received message. "
        f"Return to commit, raise to roll back."
    )


def _text_of(query: object) -> str:
    """Return a statement as a handler wrote it, in small letters, as far as that is a text."""
    if isinstance(query, sql.Composable):
        query = query.as_bytes(None)
    text = query.decode(errors="replace") if isinstance(query, bytes) else str(query)
    return text.lower()


class HandlerConnection(HookedConnection, Awaiting):
    """The connection a handler works on: psycopg's, less the verbs that would end the transaction."""

    backend: Final = "postgresql"  # which of our databases this is, for an ORM on the connection
    orm: object = None  # what an ORM keeps with the connection: SQLAlchemy's engine, Django's wrapper
    _called = "context.connection"
    execute = awaited(HookedConnection.execute)

    scope: Scope | None = None  # of the call that may use it
    own_settings: Sequence[Statement[object]] = ()  # what puts these back, once a handler has used it
    clearing: Sequence[Statement[object]] = ()  # what clears the session of what a handler may leave there
    locks: Sequence[Statement[object]] = ()  # what takes the session's own advisory locks
    kept: Sequence[Statement[object]] = ()  # what keeps them from others until they are taken again
    blocks = 0  # nested transactions that are open
    waits = 0  # calls of the driver's that wait for the server just now; a stream between two rows does not
    attempt_open = False  # no savepoint is set outside an attempt
    touched = False
    savepoint_set = False
    has_cause = False  # whether the transaction says what causes its changes
    caused_by: tuple[Subject, str] | None = None  # what it says: the subject in hand, and its handler

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, as the receiver's is but in mode NONE."""
        return self.pgconn.transaction_status != TransactionStatus.IDLE

    async def wait(self, gen: PQGen[T], *interval: Any, **timeout: Any) -> T:  # noqa: ANN401 - psycopg's own
        """Wait as psycopg does, and be known to; a statement and the savepoint before it are one wait."""
        self.waits += 1
        try:
            if interval or timeout:
                return await super().wait(gen, *interval, **timeout)
            return await complete(self, gen)
        finally:
            self.waits -= 1

    def before_query(self) -> PQGen[None]:
        """Set the savepoint if it is not yet set; also for cursors that are not ours, such as AsyncRawCursor."""
        require(self.scope, in_loop=True)
        yield from self.run_first(self.before_handlers())

    def before_handlers(self) -> Sequence[Statement[object]]:
        """Return the same as `before_attempt`, before a statement of a handler's, which may set what is its own."""
        before = self.before_attempt()
        self.own_settings = (*self.clearing, *OWN_SETTINGS)
        return before

    def before_attempt(self) -> Sequence[Statement[object]]:
        """Return what has to come before the attempt's first statement, and before the first of its next handler."""
        before = self._before_attempt()
        if (parts := self._new_cause()) is None:
            return before
        self.has_cause = True
        return (*before, cause_values(parts, self.pgconn))

    def _before_attempt(self) -> Sequence[Statement[object]]:
        """Return what sets the savepoint if it is not yet set.

        In a batch, what the handler of another message has set ends here.
        """
        if self.touched or not self.attempt_open:
            return ()
        is_next, self.touched, self.savepoint_set = self.savepoint_set, True, True
        if not is_next:
            return (SAVEPOINT,)
        return (*self.clearing[:1], *_NEXT_ATTEMPT) if self.own_settings else (_RELEASE, SAVEPOINT)

    def _new_cause(self) -> Mapping[str, str] | None:
        """Return what causes the changes that follow; None where that is said already, or nothing does."""
        if not self.attempt_open:
            return None
        subject = subject_in_hand()  # none where the statement is ours
        if subject is None or (cause := (subject, subject.handler)) == self.caused_by:
            return None
        self.caused_by = cause
        return subject.cause()

    def note_query(self, query: object) -> None:
        """Refuse a statement that ends the transaction; note one that may leave something in the session."""
        text = _text_of(query)
        if self.attempt_open and (ending := _ENDING.match(text)):
            _forbidden(_VERBS.get(ending[1], "commit"))
        if not any(hint in text for hint in _HINTS) or not _LASTING.search(text):
            return
        self.clearing = (_LEFT_BEHIND, *self.kept, _UNLOCK, *self.locks)
        if _UNPLANNING.search(text) is not None:
            self.note_deallocate_all()

    @asynccontextmanager
    async def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002 - psycopg's signature
    ) -> AsyncGenerator[psycopg.AsyncTransaction]:
        """Open a nested transaction (a savepoint), inside the message's."""
        async with self.lock:
            await self.wait(self.before_query())
        async with super().transaction(savepoint_name, force_rollback) as transaction:
            with self.in_block():
                yield transaction

    @contextmanager
    def in_block(self) -> Generator[None]:
        """Note that a nested transaction is open: one that is left so is as good as a stream that is."""
        self.blocks += 1
        try:
            yield
        finally:
            self.blocks -= 1

    async def close(self) -> None:
        """Refuse: the receiver closes it, by its session."""
        _forbidden("close")

    async def commit(self) -> None:
        """Refuse: the receiver commits."""
        _forbidden("commit")

    async def rollback(self) -> None:
        """Refuse: raise in the handler to roll back."""
        _forbidden("roll back")

    def note_deallocate_all(self) -> None:
        """Doubt our plans: the driver deallocates everything after a rollback or a DROP that it saw.

        Doubt only: it may fail, or be one of the statements of a pipeline that are skipped.
        """
        self.roundtrips.doubt_plans()


class SyncHandlerConnection(SyncHookedConnection):
    """The same server connection for a handler in a thread, less the verbs that would end the transaction."""

    backend: Final = "postgresql"  # as `HandlerConnection.backend`
    orm: object = None  # as `HandlerConnection.orm`
    shared: HandlerConnection  # the other view, which knows whether the savepoint is set

    @classmethod
    def of(cls, shared: HandlerConnection) -> Self:
        """Return the synchronous view of a connection in no transaction, for use while the other is not used."""
        view = cls._on(shared)
        view.autocommit = True
        return view

    @classmethod
    def _on(cls, shared: HandlerConnection) -> Self:
        pgconn = shared.pgconn
        heard_by = pgconn.notice_handler, pgconn.notify_handler
        view = cls(pgconn, row_factory=tuple_row)
        pgconn.notice_handler, pgconn.notify_handler = heard_by  # which the new view has taken
        view.shared = shared
        view.roundtrips = shared.roundtrips
        view.cursor_factory = SyncTellingCursor
        view.prepare_threshold = None  # all views would give prepared statements the same names
        return view

    def add_notice_handler(self, callback: Callable[[psycopg.errors.Diagnostic], None]) -> None:
        """Have a function called for each notice of the server's."""
        self.shared.add_notice_handler(callback)

    def remove_notice_handler(self, callback: Callable[[psycopg.errors.Diagnostic], None]) -> None:
        """Have it called no longer."""
        self.shared.remove_notice_handler(callback)

    def note_query(self, query: object) -> None:
        """Look at a handler's statement, as the other view does."""
        self.shared.note_query(query)

    def twin(self) -> Self:
        """Return another view, within the transaction, for an ORM that reads and writes values in a way of its own."""
        return self._on(self.shared)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, as the receiver's is but in mode NONE."""
        return self.pgconn.transaction_status != TransactionStatus.IDLE

    def before_query(self) -> PQGen[None]:
        """Set the savepoint if it is not yet set."""
        require(self.shared.scope, in_loop=False)
        yield from self.run_first(self.shared.before_handlers())

    @contextmanager
    def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002 - psycopg's signature
    ) -> Generator[psycopg.Transaction]:
        """Open a nested transaction (a savepoint), inside the message's."""
        with self.lock:
            self.wait(self.before_query())
        with super().transaction(savepoint_name, force_rollback) as transaction, self.shared.in_block():
            yield transaction

    def commit(self) -> None:
        """Refuse: the receiver commits."""
        _forbidden("commit")

    def rollback(self) -> None:
        """Refuse: raise in the handler to roll back."""
        _forbidden("roll back")

    def close(self) -> None:
        """Refuse: the connection is the receiver's."""
        _forbidden("close")
