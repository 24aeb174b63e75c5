"""Messages that the handlers of a log's events send: in the transaction of their events, or at once.

Invariant: what is not sent at once commits with the position of the consumer, or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.messages.address import DEFAULT_SCHEMA
from rowbus.messages.addresses import PostgresAddresses
from rowbus.messages.headers import Header
from rowbus.transport.composition import Composer
from rowbus.transport.pubsub.publication import publish, publish_now

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession, Session, SessionPool
    from rowbus.database.statements import Statement
    from rowbus.messages.message import OutgoingMessage
    from rowbus.messages.outgoing import Options
    from rowbus.transport.composition import Destination
    from rowbus.transport.send_verbs import EventType

SUBSCRIPTIONS = "SubscriptionRouting"


class ConsumerSender(Composer):
    """Makes and sends the messages of one consumer's handlers; one for all their calls."""

    def __init__(self, pool: SessionPool) -> None:
        """Send at once through sessions of this pool. No I/O."""
        super().__init__(PostgresAddresses(DEFAULT_SCHEMA), None, SUBSCRIPTIONS, None, notify=True)
        self._pool = pool

    def canonical(self, address: Destination | None) -> str | None:
        """Return an address as it travels in headers, None for none."""
        return None if address is None else self._address(address).canonical

    def sending(
        self, destination: Destination, message: object, type: str | None, options: Options
    ) -> tuple[str, Statement[None]]:
        """Return the id of a message and the statement that sends it, or stores it until it is due."""
        outgoing = self._message(message, type, options)
        return _id_of(outgoing), self._sending(destination, outgoing, options)

    async def send_now(
        self, destination: Destination, message: object, type: str | None, options: Options
    ) -> str:
        """Send a message in a transaction of its own and return its id."""
        message_id, statement = self.sending(destination, message, type, options)
        await self._pool.open()
        async with self._pool.session() as session:
            await session.run(statement)
        return message_id

    def publish(self, session: Session, event: object, type: EventType, options: Options) -> str:
        """Publish an event in the transaction of a synchronous session and return its message id."""
        publication = self._event(event, type, options)
        publish_now(session, publication)
        return publication.message_id

    async def publish_async(
        self, session: AsyncSession, event: object, type: EventType, options: Options
    ) -> str:
        """Publish an event in the transaction of a session and return its message id."""
        publication = self._event(event, type, options)
        await publish(session, publication)
        return publication.message_id

    async def publish_now(self, event: object, type: EventType, options: Options) -> str:
        """Publish an event in a transaction of its own and return its message id."""
        await self._pool.open()
        async with self._pool.session() as session:
            return await self.publish_async(session, event, type, options)

    async def close(self) -> None:
        """Close the sessions of what was sent at once."""
        await self._pool.close()


def _id_of(message: OutgoingMessage) -> str:
    return message.headers[Header.MESSAGE_ID] or ""
