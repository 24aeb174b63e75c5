"""Delayed delivery of an endpoint, as its settings choose: its own table and its mover, a store, or nothing.

Invariants: an endpoint that cannot delay says so when a message is made, before anything is sent; an endpoint's
Timeouts queue fails as its own queues do: what cannot be read goes to the same error queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.endpoint.recovery import Recovery
from rowbus.running.in_hand import of_this_process
from rowbus.running.setting_types import require_type
from rowbus.settings import NativeDelayedDelivery
from rowbus.transport.delayed.installer import check_times, create_delayed, require_delayed
from rowbus.transport.delayed.mover import MoverService
from rowbus.transport.delayed.moves import Fallback
from rowbus.transport.delayed.table import delayed_address
from rowbus.transport.delayed_store.protocol import DelayedDeliverySettings
from rowbus.transport.delayed_store.service import DelayedStoreService, Owner, timeouts_queue
from rowbus.transport.delayed_store.table import QUALIFIER
from rowbus.transport.queues.destination_rule import moved_destinations
from rowbus.transport.queues.lookout import lookout_of
from rowbus.transport.receiving.dispatcher import DelayService, NativeDelays

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.endpoint.parts import Parts
    from rowbus.messages.headers import Identity
    from rowbus.transport.delayed_store.protocol import DelayedDelivery


class NativeDelayService(DelayService):
    """The endpoint's own table of delayed messages, and the mover of this process."""

    def __init__(
        self, parts: Parts, native: NativeDelayedDelivery, database: Database, identity: Identity
    ) -> None:
        """Put the parts together. No I/O."""
        settings = parts.settings
        self._address = delayed_address(parts.name, native, parts.addresses)
        self._settings, self._native = settings, native
        self.delays = NativeDelays(self._address, notify=settings.notifications)
        self._mover = MoverService(
            database,
            self._address,
            Fallback(
                parts.address,
                parts.error_queue,
                identity,
                moved_destinations(native.allowed_destinations, self._address),
            ),
            native,
            parts.alarm,
            notifications=settings.notifications,
            lookout=lookout_of(database) if settings.notifications else None,
        )

    async def install(self, session: AsyncSession) -> None:
        """Create the table if it is missing, or raise QueueNotFoundError."""
        if self._settings.install:
            await create_delayed(session, self._address, body_string=self._settings.body_string)
        else:
            await require_delayed(session, self._address)

    async def check(self, session: AsyncSession) -> None:
        """Raise ShiftedTimesError, or log, if times in the table were moved."""
        await check_times(session, self._address, refuse=self._native.refuse_shifted_times)

    async def catch_up(self) -> None:
        """Move a batch of what is due, in a worker: one that replaces another may live for a few messages only."""
        if of_this_process() is not None:
            await self._mover.move_first()

    async def start(self) -> None:
        """Move what is due, or stand by."""
        await self._mover.start()

    async def stop(self, timeout: float | None) -> None:  # noqa: ASYNC109 - as above
        """Let the mover finish its batch."""
        await self._mover.stop(timeout)


def delay_service(parts: Parts, database: Database, identity: Identity) -> DelayService:
    """Return how an endpoint delays messages, as it was told."""
    if parts.delayed_delivery is None:
        return DelayService()
    if isinstance(parts.delayed_delivery, DelayedDeliverySettings):
        return DelayedStoreService(database, _owner(parts, identity), parts.delayed_delivery)
    return NativeDelayService(parts, parts.delayed_delivery, database, identity)


def _owner(parts: Parts, identity: Identity) -> Owner:
    address = timeouts_queue(parts.name, parts.addresses)
    recovery = Recovery(parts._replace(mutators=()), address, identity)
    return Owner(
        parts.name,
        parts.addresses,
        parts.settings,
        identity,
        parts.error_queue,
        recovery.on_poison,
        parts.on_critical_error,
    )


def require_delayed_delivery(given: object) -> None:
    """Raise ConfigurationError for what is no setting of it."""
    kinds = NativeDelayedDelivery | DelayedDeliverySettings | None
    require_type(
        "delayed_delivery",
        given,
        kinds,
        "rowbus.NativeDelayedDelivery(…), DelayedDeliverySettings(…), or None",
    )


def table_suffix(delayed_delivery: DelayedDelivery) -> str:
    """Return what an endpoint's name is lengthened by for the table its delayed messages are in; empty: none."""
    if isinstance(delayed_delivery, DelayedDeliverySettings):
        return QUALIFIER
    return "" if delayed_delivery is None else delayed_delivery.table_suffix
