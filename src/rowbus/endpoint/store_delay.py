"""An endpoint that delays messages by a store: what the services need to know of the endpoint.

Invariant: an endpoint's Timeouts queue fails as its own queues do: what cannot be read goes to the same error queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.endpoint.recovery import Recovery
from rowbus.transport.delayed_store.service import DelayedStoreService, Owner, timeouts_queue

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.endpoint.parts import Parts
    from rowbus.messages.identity import Identity
    from rowbus.transport.delayed.delays import Delays
    from rowbus.transport.delayed_store.protocol import DelayedDeliverySettings


class StoreDelayService:
    """The endpoint's Timeouts queue, its store, and what polls it in this process."""

    def __init__(
        self, parts: Parts, settings: DelayedDeliverySettings, database: Database, identity: Identity
    ) -> None:
        """Put the parts together. No I/O."""
        recovery = Recovery(
            parts.policy,
            error_queue=parts.error_queue,
            address=timeouts_queue(parts.name, parts.addresses),
            identity=identity,
            mode=parts.settings.transaction_mode,
        )
        owner = Owner(
            parts.name,
            parts.addresses,
            parts.settings,
            identity,
            parts.error_queue,
            recovery.on_poison,
            parts.on_critical_error,
        )
        self._service = DelayedStoreService(database, owner, settings)
        self.delays: Delays = self._service.delays

    async def install(self, session: AsyncSession) -> None:
        """Initialize the store; create the queue and what the store lacks, or raise QueueNotFoundError."""
        await self._service.install(session)

    async def check(self, session: AsyncSession) -> None:
        """Do nothing: only we write to a store, and in UTC."""

    async def catch_up(self) -> None:
        """Do nothing: a store is read by its own loop."""

    async def start(self) -> None:
        """Store what comes, and forward what is due."""
        await self._service.start()

    async def stop(self, timeout: float | None) -> None:  # noqa: ASYNC109 - a grace period
        """Finish what is in hand; the store is closed."""
        await self._service.stop(timeout)
