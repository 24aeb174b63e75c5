"""The scope of the transaction in which a delayed message leaves its store: everything, or the store's part only.

Invariant: in a shared scope what is sent and what is done to the store commit together or not at all. In a foreign one
what is sent is committed first, so that a message is never gone from the store and nowhere else.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from rowbus.database.sessions import AsyncSession, SessionPool
    from rowbus.messages.dispatch import Send
    from rowbus.transport.delayed_store.protocol import DelayedMessageStore
    from rowbus.transport.receiving.dispatcher import Dispatcher


class Scope(NamedTuple):
    """A store inside a transaction, and what sends beside it; a `send` that raises has sent nothing."""

    store: DelayedMessageStore
    send: Callable[[Send], Awaitable[None]]
    exactly_once: bool


class Scopes(Protocol):
    """How the transactions of one store are opened."""

    def open(self) -> AbstractAsyncContextManager[Scope]:
        """Open one; it commits when the block ends, and is rolled back when the block raises."""
        raise NotImplementedError

    def storing(self, connection: object) -> DelayedMessageStore:
        """Return the store for use beside a transaction on a connection to the queues' database; in it, if shared."""
        raise NotImplementedError


class SharedScopes:
    """Store and queues in one transaction of one database."""

    def __init__(self, store: DelayedMessageStore, pool: SessionPool, dispatcher: Dispatcher) -> None:
        """Open transactions on the pool's sessions. No I/O."""
        self._store = store
        self._pool = pool
        self._dispatcher = dispatcher

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Scope]:
        """Open a transaction for everything."""
        async with self._pool.session() as session, session.transaction():

            async def send(what: Send) -> None:
                await self._send(session, what)

            yield Scope(self.storing(session.connection), send, exactly_once=True)

    def storing(self, connection: object) -> DelayedMessageStore:
        """Return the store in the connection's transaction."""
        enlisted = self._store.enlist(connection)
        if enlisted is None:
            raise ConfigurationError("The delayed message store enlisted before and now does not.")
        return enlisted

    async def _send(self, session: AsyncSession, send: Send) -> None:
        """Send, leaving the transaction usable, and what it has locked locked, when that fails."""
        await self._dispatcher.secure(session, [send])
        await session.run_all(self._dispatcher.statements([send]), atomic=True)


class ForeignScopes:
    """A store elsewhere, in transactions of its own if it has any; what is sent commits at once."""

    def __init__(self, store: DelayedMessageStore, dispatcher: Dispatcher) -> None:
        """Send through a dispatcher. No I/O."""
        self._store = store
        self._dispatcher = dispatcher

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Scope]:
        """Open a transaction of the store's."""
        async with self._store.transaction() as store:
            yield Scope(store, self._send, exactly_once=False)

    def storing(self, connection: object) -> DelayedMessageStore:  # noqa: ARG002 - of the twin above
        """Return the store, which commits by itself."""
        return self._store

    async def _send(self, send: Send) -> None:
        await self._dispatcher.dispatch([send])


async def scopes(store: DelayedMessageStore, pool: SessionPool, dispatcher: Dispatcher) -> Scopes:
    """Return the scopes of a store, which is asked whether it takes part in the queues' transactions."""
    async with pool.session() as session:
        shared = store.enlist(session.connection) is not None
    return SharedScopes(store, pool, dispatcher) if shared else ForeignScopes(store, dispatcher)
