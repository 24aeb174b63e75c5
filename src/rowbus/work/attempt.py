"""One call of a handler for a message or events: what it may use, and what became of it.

Invariant: no exception of a handler passes, of whatever class; what it does on its connection can be undone, and ends
with the call. A connection that is in the midst of something then is given up, and never waited for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rowbus.errors import ConnectionLostError, HandlerError, StorageError, TimeLimitExceededError
from rowbus.errors.strangers import is_a, sqlstate_of, text_of
from rowbus.running.turns import onto_loop
from rowbus.work.fate import Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from rowbus.database.sessions import HandlerConnection, ReceiveSession, SyncHandlerConnection
    from rowbus.database.statements import Statement
    from rowbus.running.scope import Scope

T = TypeVar("T")
E = TypeVar("E", bound=StorageError)


class UnfinishedError(HandlerError):
    """A handler that ended in the midst of something; the cause is what it raised."""


class Outcome(NamedTuple):
    """The end of a call, and what it raised."""

    ending: Ending
    error: BaseException


async def attempt(
    scope: Scope,
    work: Coroutine[Any, Any, object],
    session: ReceiveSession,
    is_cut_off: Callable[[], bool],
    *,
    in_transaction: bool = True,
    keep_tasks: bool = False,
) -> Outcome | None:
    """Call a handler in a scope, behind the savepoint of its transaction; return None when done, else what happened.

    It runs in a copy of the caller's context variables. Nothing passes but the CancelledError of a service that stops:
    `is_cut_off` says whether it does. `in_transaction` is false where each statement commits by itself. Tasks that the
    handler leaves are cancelled, but for `keep_tasks`.
    """
    session.admit(scope)
    if in_transaction:  # also to keep the lock: an aborted transaction lets go of it at once
        session.start_attempt()
    error = await scope.call(work, is_cut_off, keep_tasks=keep_tasks)
    if error is None and session.is_untouched:
        return None
    if await given_up(session):
        if error is not None and is_a(error, TimeLimitExceededError):
            return Outcome(Ending.OVERDUE, error)
        return Outcome(Ending.UNFINISHED, unfinished(error))
    if error is None:
        error = _ensure_usable(session, in_transaction=in_transaction)
    if not in_transaction and not session.ended and not session.closed:
        await onto_loop()
        await session.rollback()
        if error is None:
            error = HandlerError("The handler left a transaction open that it began: it is rolled back.")
    if error is None:
        return None
    await onto_loop()
    return Outcome(_ending(session, error, in_transaction=in_transaction), error)


def cancelled(outcome: Outcome | None, error: BaseException) -> Outcome:
    """Return how a call ended that somebody has asked to end with this error, whatever it returned or raised."""
    if outcome is None:
        return Outcome(Ending.FAILED, error)
    is_given_up = outcome.ending in {Ending.LOST, Ending.UNFINISHED}
    return Outcome(Ending.OVERDUE if is_given_up else outcome.ending, error)


def _ensure_usable(session: ReceiveSession, *, in_transaction: bool) -> HandlerError | None:
    if in_transaction and session.ended:
        return HandlerError(
            "The handler ended the transaction that held what it handled, by a commit or rollback of its own."
        )
    try:
        session.ensure_usable()
    except HandlerError as spoilt:
        return spoilt
    return None


def _ending(session: ReceiveSession, error: BaseException, *, in_transaction: bool) -> Ending:
    if in_transaction and session.closed:
        return Ending.OVERDUE if is_a(error, TimeLimitExceededError) else Ending.LOST
    return Ending.ENDED if in_transaction and session.ended else Ending.FAILED


async def given_up(session: ReceiveSession) -> bool:
    """Give a connection up that a handler left in the midst of something; say whether one did."""
    if not session.is_occupied:
        return False
    await onto_loop()
    await session.give_up()
    return True


def unfinished(error: BaseException | None) -> UnfinishedError:
    """Return the error of who left its connection so, and raised this, if anything."""
    unfinished = UnfinishedError(
        "The handler ended while its connection was in the midst of something: a stream, a copy or a nested "
        "transaction that is still open, or a statement that nobody waits for. Close what it opens (`async with`, "
        "contextlib.aclosing), and await what it starts."
    )
    unfinished.__cause__ = error
    return unfinished


def lost(error: BaseException, seen: str, then: str) -> ConnectionLostError:
    """Return the error of rows whose connection is gone, or was given up in the midst of something."""
    text = str(error) if is_a(error, UnfinishedError) else f"{seen}; {then}."
    return _caused(ConnectionLostError(text, sqlstate=None, transient=True), error)


def outage(error: BaseException, then: str) -> StorageError:
    """Return the error of rows whose handler found the database short of something."""
    text = f"A handler met an outage; {then}: {text_of(error)}"
    return _caused(StorageError(text, sqlstate=sqlstate_of(error), transient=True), error)


def _caused(error: E, cause: BaseException) -> E:
    error.__cause__ = cause
    return error


class Attempt:
    """The things that the code that handles a message or an event may use while it does."""

    __slots__ = ("_session",)

    def __init__(self, session: ReceiveSession) -> None:
        """Belong to the transaction of a session."""
        self._session = session

    @property
    def connection(self) -> HandlerConnection:
        """The connection of the transaction, for `async def` code (mode NONE: a connection in autocommit)."""
        connection: HandlerConnection = self._session.handler_connection
        return connection

    @property
    def sync_connection(self) -> SyncHandlerConnection:
        """The same connection for code in a thread."""
        connection: SyncHandlerConnection = self._session.sync_handler_connection
        return connection

    async def abandon(self) -> None:
        """Give the connection up while code in a thread still uses it: the transaction is rolled back."""
        await self._session.abandon()

    def discard(self) -> None:
        """Close the connection that was given up; called in the thread that used it."""
        self._session.discard()

    async def ensure_finished(self) -> None:
        """Raise UnfinishedError where a call left the connection in the midst of something: what follows would hang.

        The connection is given up then, and what the call raised is the error's cause.
        """
        if await given_up(self._session):
            raise unfinished(sys.exception())

    async def run(self, statement: Statement[T]) -> T:
        """Run a statement of ours in the transaction, undone if the attempt fails. Raises StorageError."""
        return await self._session.run(statement, undoable=True)
