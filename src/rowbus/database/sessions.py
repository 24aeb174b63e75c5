"""The protocols of a database and of its sessions; each backend implements them.

`run` runs a statement in the session's transaction; in autocommit mode each statement is a transaction of its own.
Every method raises only a `RowbusError` that names what failed.

Invariant: a session never ends a transaction it was given, is not for concurrent use, and is closed by its opener.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, overload

from rowbus.database.statements import Blocking, UserSession

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from rowbus.database.postgresql import handler_connection
    from rowbus.database.statements import Statement
    from rowbus.errors import RowbusError
    from rowbus.running.scope import Scope

T = TypeVar("T")

HandlerConnection: TypeAlias = "handler_connection.HandlerConnection"
"""The connection that `async def` handlers work on, as PostgreSQL's users see it; other databases' have fewer verbs."""

SyncHandlerConnection: TypeAlias = "handler_connection.SyncHandlerConnection"
"""The same for `def` handlers."""


class Session(Blocking, Protocol):
    """Runs statements on a synchronous connection, with what services need beyond sending."""

    def notified(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a notification; say whether one came. Raises ConnectionLostError.

        Without notifications (`Database.notifies`), just wait.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the connection; harmless when it is closed or broken."""
        raise NotImplementedError


class AsyncSession(UserSession, Protocol):
    """Runs statements on a connection, asynchronously; the twin of `Session`, with what services need beyond it."""

    @property
    def connection(self) -> Any:  # noqa: ANN401 - each driver's own
        """The connection, as stores that take part in our transaction get it."""
        raise NotImplementedError

    async def run(
        self,
        statement: Statement[T],
        *,
        within: float | None = None,
        then: Callable[[T], Sequence[Statement[object]]] | None = None,
    ) -> T:
        """Run one statement and decode its answer, and `then` what follows from it: see `Session.run`.

        A connection that does not answer `within` so many seconds is given up, and ConnectionLostError raised.
        """
        raise NotImplementedError

    async def run_all(self, statements: Sequence[Statement[object]], *, atomic: bool = False) -> None:
        """Run several statements, answers unread, in one round trip where the database can.

        `atomic`: all or none. Within a transaction, which stays usable if one fails, and keeps what it had locked
        before; on a session in none, committed when this returns.
        """
        raise NotImplementedError

    @overload
    async def run_together(
        self, statements: Sequence[Statement[T]], *, within: float | None = None, each: Literal[False] = False
    ) -> list[T]: ...

    @overload
    async def run_together(
        self, statements: Sequence[Statement[T]], *, within: float | None = None, each: Literal[True]
    ) -> list[T | RowbusError]: ...

    async def run_together(
        self, statements: Sequence[Statement[Any]], *, within: float | None = None, each: bool = False
    ) -> list[Any]:
        """Run statements and decode their answers, in one round trip where the database can; raise the first failure.

        `each`: a failure is the answer of its own statement alone; for statements that only read. `within` is that of
        `run`. The session keeps the plans, if it keeps any, but makes them anew now and then: for tables that are small
        at one time and large at another.
        """
        raise NotImplementedError

    async def notified(self, timeout: float) -> bool:  # noqa: ASYNC109 - the wait is the point
        """Wait up to `timeout` seconds for a notification; say whether one came. Raises ConnectionLostError.

        Without notifications (`Database.notifies`), just wait.
        """
        raise NotImplementedError

    async def heard(self, seconds: float) -> set[str]:
        """Wait up to so many seconds for notifications; return their channels. Raises ConnectionLostError."""
        raise NotImplementedError

    def has_ended(self) -> bool:
        """Say whether the server may have ended it, as far as an idle session has heard; asks nothing."""
        raise NotImplementedError

    @property
    def is_idle(self) -> bool:
        """Whether the connection works and is in no transaction."""
        raise NotImplementedError

    @property
    def closed(self) -> bool:
        """Whether the connection is closed or broken."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the connection; harmless when it is closed or broken."""
        raise NotImplementedError


class ReceiveSession(AsyncSession, Protocol):
    """The connection of one receiving slot, and the transaction that messages are received in.

    Between `begin` and `commit` the transaction is the slot's alone: a handler can neither end it nor, after
    `undo_attempt`, have left anything in it. After any failure, `rollback` puts back what was received.
    """

    @property
    def committed(self) -> bool:
        """Whether the last commit went through, also after an error."""
        raise NotImplementedError

    @committed.setter
    def committed(self, value: bool) -> None: ...

    @property
    def handler_connection(self) -> Any:  # noqa: ANN401 - each driver's own
        """The connection that an `async def` handler works on; it refuses commit, rollback and close."""
        raise NotImplementedError

    @property
    def sync_handler_connection(self) -> Any:  # noqa: ANN401 - each driver's own
        """The connection that a `def` handler works on, in its thread, while nothing else uses the session."""
        raise NotImplementedError

    async def run(
        self,
        statement: Statement[T],
        *,
        within: float | None = None,
        then: Callable[[T], Sequence[Statement[object]]] | None = None,
        undoable: bool = False,
    ) -> T:
        """Run one statement and decode its answer; `undoable`: with the attempt, if it is undone."""
        raise NotImplementedError

    def keep_locks(self, take: Statement[object], keep: Sequence[Statement[object]] = ()) -> None:
        """Have locks of the session's own outlive what handlers leave; `keep` keeps them while all are released."""
        raise NotImplementedError

    async def begin(self, receive: Statement[T]) -> T:
        """Begin a transaction and receive in it."""
        raise NotImplementedError

    async def commit(self, last: Sequence[Statement[object]] = ()) -> None:
        """Run the last statements and commit; `committed` says whether that happened, also after an error.

        Where a savepoint can undo them, a failure of these statements leaves the message in hand: `undo_completion`.
        """
        raise NotImplementedError

    async def commit_and_begin(self, last: Sequence[Statement[object]], receive: Statement[T]) -> T:
        """Run the last statements, commit, begin anew and receive: in one round trip where the database can.

        After an error `committed` tells the two halves apart: false, and this transaction is lost; true, and only
        the next receive failed.
        """
        raise NotImplementedError

    async def undo_completion(self) -> bool:
        """After a failed completion: undo the attempt and keep the message, if the transaction still can."""
        raise NotImplementedError

    async def rollback(self) -> None:
        """Put what was received back; harmless outside a transaction. Closes a connection that cannot."""
        raise NotImplementedError

    @property
    def is_stained(self) -> bool:
        """Whether a handler may have changed what outlives its transaction: then another session is to be opened."""
        raise NotImplementedError

    async def renew(self) -> None:
        """Put the session's settings back that a handler may have changed, in autocommit mode. Raises StorageError."""
        raise NotImplementedError

    async def abandon(self) -> None:
        """Give the connection up while a handler's thread still uses it: the server rolls the transaction back.

        The session is `closed` from then on. Waits for some seconds at most, and raises nothing.
        """
        raise NotImplementedError

    def discard(self) -> None:
        """Close the connection that was abandoned; called in the thread that used it, at its end."""
        raise NotImplementedError

    async def give_up(self) -> None:
        """Abandon the connection, and close it when what still runs on it, on the loop, has failed.

        Waits for some seconds at most, and raises nothing.
        """
        raise NotImplementedError

    def admit(self, scope: Scope) -> None:
        """Let the code of one call use the handler's connection, and that of earlier ones no more."""
        raise NotImplementedError

    def start_attempt(self) -> None:
        """From here on, what a handler does through its connection can be undone."""
        raise NotImplementedError

    @property
    def is_untouched(self) -> bool:
        """Whether it is known that nothing has used the connection since `admit`: then it is as it was."""
        raise NotImplementedError

    @property
    def is_occupied(self) -> bool:
        """Whether a handler that has ended left the connection in the midst of something, or in somebody's hands."""
        raise NotImplementedError

    @property
    def is_busy(self) -> bool:
        """Whether the connection is in the midst of something, so that nothing else can run on it now."""
        raise NotImplementedError

    async def undo_attempt(self) -> bool:
        """Undo what the handler did through its connection; raises when the transaction cannot be kept.

        False when there is none to keep, because an error made the server roll it back: what was received is back in
        its queue, and perhaps in flight in another slot.
        """
        raise NotImplementedError

    @property
    def ended(self) -> bool:
        """Whether there is no transaction: after `begin` that means that a handler ended it behind our back."""
        raise NotImplementedError

    def reason(self, error: BaseException) -> BaseException:
        """Return what the server said when it ended the connection, where this error does not tell; else the error."""
        raise NotImplementedError

    def ensure_usable(self) -> None:
        """Raise HandlerError if the handler swallowed a database error that spoilt the transaction."""
        raise NotImplementedError


class SessionPool(Protocol):
    """A few sessions, shared by work that needs one now and then."""

    async def open(self) -> None:
        """Start lending."""
        raise NotImplementedError

    def session(self) -> AbstractAsyncContextManager[AsyncSession]:
        """Lend a session in autocommit mode, waiting for one if need be; raises ConnectionLostError."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the sessions; those lent are closed when they come back."""
        raise NotImplementedError


class Database(Protocol):
    """Where queues live, and how to reach it. Sessions are in autocommit mode until they are told to begin."""

    @property
    def name(self) -> str:
        """Its name for people, without secrets."""
        raise NotImplementedError

    @property
    def identity(self) -> str:
        """A text that is equal for one database, one role and the same settings; with secrets."""
        raise NotImplementedError

    @property
    def server(self) -> str:
        """The server of the last session, for people, and to tell servers apart; empty: none was opened."""
        raise NotImplementedError

    @property
    def notifies(self) -> bool:
        """Whether sessions can be told of messages; where not, receivers only poll."""
        raise NotImplementedError

    @property
    def has_logs(self) -> bool:
        """Whether the database can keep event logs, and what Spark needs."""
        raise NotImplementedError

    def keeps_sessions(self) -> bool:
        """Say whether sessions keep their connection to the server: through a pooler they may not. Blocks."""
        raise NotImplementedError

    async def connect(self) -> AsyncSession:
        """Open an asynchronous session; raises ConnectionLostError when that fails."""
        raise NotImplementedError

    async def connect_reader(self) -> AsyncSession:
        """Open a session that runs the same statements over and over; raises ConnectionLostError."""
        raise NotImplementedError

    async def connect_sender(self) -> AsyncSession:
        """Open the same for what only sends, and is to wait for no lock without end; raises ConnectionLostError."""
        raise NotImplementedError

    async def connect_receiver(self) -> ReceiveSession:
        """Open the session of one receiving slot; raises ConnectionLostError when that fails."""
        raise NotImplementedError

    def session(self) -> AbstractContextManager[Session]:
        """Open a synchronous session and close it again; raises ConnectionLostError when that fails."""
        raise NotImplementedError

    def pool(self, size: int) -> SessionPool:
        """Return a pool that lends at most `size` sessions at a time. No I/O."""
        raise NotImplementedError

    def fault(self, error: Exception) -> RowbusError | None:
        """Return our error for one that the driver raised to users of a session's connection; None for others."""
        raise NotImplementedError


@asynccontextmanager
async def connected(database: Database) -> AsyncGenerator[AsyncSession]:
    """Lend a block a session of its own. Raises ConnectionLostError."""
    session = await database.connect()
    try:
        yield session
    finally:
        await session.close()
