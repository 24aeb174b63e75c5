"""The transaction modes, a class each: how a slot receives, and what commits with what (reference §4.2).

Invariant: what was received and not completed goes back to its queue when the session is rolled back, except in mode
NONE, where a received message is never in a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.settings import TransactionMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.postgresql.receiving import ReceiveSession
    from rowbus.database.statements import Statement
    from rowbus.model.dispatch import Send
    from rowbus.model.message import MessageRow
    from rowbus.services.dispatcher import Dispatcher


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

    async def complete(self, sends: Sequence[Send]) -> None:
        """Send and commit."""
        await self._session.commit(self._dispatcher.statements(sends))

    async def complete_and_receive(
        self, sends: Sequence[Send], receive: Statement[list[MessageRow]]
    ) -> list[MessageRow]:
        """Send, commit, begin anew and take messages: one round trip."""
        return await self._session.commit_and_begin(self._dispatcher.statements(sends), receive)


class ReceiveOnly(SendsAtomicWithReceive):
    """One transaction for the message and the handler's SQL; what it sends is committed just before, elsewhere."""

    async def complete(self, sends: Sequence[Send]) -> None:
        """Send in another transaction, then commit."""
        await self._dispatch(sends)
        await self._session.commit()

    async def complete_and_receive(
        self, sends: Sequence[Send], receive: Statement[list[MessageRow]]
    ) -> list[MessageRow]:
        """Send in another transaction, then commit, begin anew and take messages."""
        await self._dispatch(sends)
        return await self._session.commit_and_begin((), receive)

    async def _dispatch(self, sends: Sequence[Send]) -> None:
        self._session.committed = False
        await self._dispatcher.dispatch(sends)


class NoTransaction:
    """Messages are consumed when they are taken; what handlers send has a transaction of its own."""

    def __init__(self, session: ReceiveSession, dispatcher: Dispatcher) -> None:
        """Use the slot's session, in autocommit mode."""
        self._session = session
        self._dispatcher = dispatcher
        self.completed = True

    async def receive(self, receive: Statement[list[MessageRow]]) -> list[MessageRow]:
        """Take messages for good."""
        return await self._session.run(receive)

    async def complete(self, sends: Sequence[Send]) -> None:
        """Send."""
        self.completed = False
        await self._dispatcher.dispatch(sends)
        self.completed = True

    async def complete_and_receive(
        self, sends: Sequence[Send], receive: Statement[list[MessageRow]]
    ) -> list[MessageRow]:
        """Send, then take messages for good."""
        await self.complete(sends)
        return await self.receive(receive)


_CLASSES: dict[TransactionMode, type[SendsAtomicWithReceive | NoTransaction]] = {
    TransactionMode.NONE: NoTransaction,
    TransactionMode.RECEIVE_ONLY: ReceiveOnly,
    TransactionMode.SENDS_ATOMIC_WITH_RECEIVE: SendsAtomicWithReceive,
}


def receive_transaction(
    mode: TransactionMode, session: ReceiveSession, dispatcher: Dispatcher
) -> SendsAtomicWithReceive | NoTransaction:
    """Return the transaction of a mode on a slot's session."""
    return _CLASSES[mode](session, dispatcher)
