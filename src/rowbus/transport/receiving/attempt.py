"""One call of a handler for a message or an event: the connection of its transaction.

Invariant: what a handler does on a connection from here is undone when its attempt fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rowbus.database.sessions import HandlerConnection, ReceiveSession, SyncHandlerConnection
    from rowbus.database.statements import Statement

T = TypeVar("T")


class Attempt:
    """What the code that handles a message or an event may use while it does."""

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

    async def run(self, statement: Statement[T]) -> T:
        """Run a statement of ours in the transaction, undone if the attempt fails. Raises StorageError."""
        return await self._session.run_in_attempt(statement)
