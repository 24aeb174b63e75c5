"""Messages that the handlers of a log's events send: in the transaction of their events, or at once.

Invariant: what is not sent at once commits with the position of the consumer, or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.steps import run_together
from rowbus.messages.address import DEFAULT_SCHEMA
from rowbus.messages.addresses import PostgresAddresses
from rowbus.messages.outgoing import Origin
from rowbus.transport.composition import Composer, identity_of
from rowbus.transport.inserts import Inserts
from rowbus.transport.pubsub.publication import publish

if TYPE_CHECKING:
    from rowbus.database.sessions import SessionPool
    from rowbus.messages.dispatch import AnySend
    from rowbus.transport.pubsub.publication import Publication

SUBSCRIPTIONS = "SubscriptionRouting"


class ConsumerSender:
    """Makes the messages of one consumer's handlers, and sends those that leave at once; one for all their calls."""

    def __init__(self, pool: SessionPool) -> None:
        """Send at once through sessions of this pool. No I/O."""
        self.composer = Composer(PostgresAddresses(DEFAULT_SCHEMA), Origin(identity_of()))
        self.inserts = Inserts(self.composer.address(SUBSCRIPTIONS))
        self._pool = pool

    async def send_now(self, send: AnySend) -> None:
        """Send a message in a transaction of its own."""
        await self._pool.open()
        async with self._pool.session() as session:
            await run_together(session, self.inserts.of(send))

    async def publish_now(self, publication: Publication) -> None:
        """Publish an event in a transaction of its own."""
        await self._pool.open()
        async with self._pool.session() as session:
            await publish(session, publication)

    async def close(self) -> None:
        """Close the sessions of what was sent at once."""
        await self._pool.close()
