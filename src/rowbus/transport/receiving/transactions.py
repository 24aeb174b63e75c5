"""The transaction modes, a class each: how a slot receives, and what commits with what.

Source: docs/wire-format.md#transaction-modes.

Invariant: what was received and not completed goes back to its queue when the session is rolled back, except in mode
NONE, where a received message is never in a transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rowbus.settings import TransactionMode

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.database.sessions import AsyncSession, ReceiveSession
    from rowbus.database.statements import Statement
    from rowbus.messages.dispatch import Leaving
    from rowbus.messages.message import MessageRow
    from rowbus.transport.receiving.dispatcher import Dispatcher


@dataclass(slots=True)
class Outgoing:
    """Messages and events that are to leave: of handlers that succeeded, and as the verdict on messages that did not.

    `afterwards` are the calls that those handlers want made after the commit; `has_failed`: an attempt at one of the
    messages has.
    """

    sends: list[Leaving] = field(default_factory=list["Leaving"])
    verdicts: list[Leaving] = field(default_factory=list["Leaving"])
    afterwards: list[Callable[[], object]] = field(default_factory=list["Callable[[], object]"])
    has_failed: bool = False


class SendsAtomicWithReceive:
    """One transaction for the message, the handler's SQL and what it sends."""

    def __init__(self, session: ReceiveSession, dispatcher: Dispatcher) -> None:
        """Use the slot's session."""
        self._session = session
        self._dispatcher = dispatcher

    @property
    def completed(self) -> bool:
        """Whether the commit went through."""
        return self._session.committed

    async def receive(self, receive: Statement[list[MessageRow]]) -> list[MessageRow]:
        """Begin and take messages."""
        return await self._session.begin(receive)

    async def complete(self, outgoing: Outgoing) -> None:
        """Send and commit."""
        await self._session.commit(await self._last(outgoing))

    async def complete_and_receive(
        self, outgoing: Outgoing, receive: Statement[list[MessageRow]]
    ) -> list[MessageRow]:
        """Send, commit, begin anew and take messages: one round trip."""
        return await self._session.commit_and_begin(await self._last(outgoing), receive)

    async def _last(self, outgoing: Outgoing) -> list[Statement[object]]:
        """Return the statements that commit with what was received."""
        leaving = (*outgoing.sends, *outgoing.verdicts)
        self._session.committed = False
        await self._dispatcher.secure(self._session, leaving)
        return self._dispatcher.statements(leaving)


class ReceiveOnly(SendsAtomicWithReceive):
    """One transaction for the message and the handler's SQL; what it sends is committed just before, elsewhere.

    A message given up on still moves to the error queue in the receive transaction: it is in one place at any time.
    """

    def __init__(self, session: ReceiveSession, dispatcher: Dispatcher, outbox: AsyncSession) -> None:
        """Send through `outbox`, which was opened before: slots that wait for each other's connections never end."""
        super().__init__(session, dispatcher)
        self._outbox = outbox

    async def _last(self, outgoing: Outgoing) -> list[Statement[object]]:
        """Send in another transaction what handlers sent, and leave the verdicts for this one."""
        self._session.committed = False
        await self._dispatcher.dispatch(outgoing.sends, self._outbox)
        return self._dispatcher.statements(outgoing.verdicts)


class NoTransaction:
    """Messages are consumed when they are taken; what handlers send has a transaction of its own."""

    def __init__(self, session: ReceiveSession, dispatcher: Dispatcher) -> None:
        """Use the slot's session, in autocommit mode."""
        self._session = session
        self._dispatcher = dispatcher
        self.completed = True

    async def receive(self, receive: Statement[list[MessageRow]]) -> list[MessageRow]:
        """Take messages for good."""
        await self._session.renew()
        return await self._session.run(receive)

    async def complete(self, outgoing: Outgoing) -> None:
        """Send, as the session's own role and with its settings, whatever a handler has set."""
        self.completed = False
        await self._session.renew()
        session = None if self._session.closed else self._session  # given up, as a handler left it
        await self._dispatcher.dispatch((*outgoing.sends, *outgoing.verdicts), session)
        self.completed = True

    async def complete_and_receive(
        self, outgoing: Outgoing, receive: Statement[list[MessageRow]]
    ) -> list[MessageRow]:
        """Send, then take messages for good."""
        await self.complete(outgoing)
        return await self.receive(receive)


def receive_transaction(
    mode: TransactionMode, session: ReceiveSession, dispatcher: Dispatcher, outbox: AsyncSession | None
) -> SendsAtomicWithReceive | NoTransaction:
    """Return the transaction of a mode on a slot's session; RECEIVE_ONLY needs an `outbox`, another session."""
    if mode is TransactionMode.NONE:
        return NoTransaction(session, dispatcher)
    return (
        SendsAtomicWithReceive(session, dispatcher)
        if outbox is None
        else ReceiveOnly(session, dispatcher, outbox)
    )
