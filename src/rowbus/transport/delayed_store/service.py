"""Delayed delivery of an endpoint through a store: starts and stops the intake's receiver and the poller together.

Invariant: `stop` leaves nothing running, also after a `start` that failed. A store that is away when the endpoint
starts is waited for, while the endpoint handles messages; what it delays waits in the Timeouts queue.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from rowbus.errors import StorageError, StoreUnavailableError
from rowbus.errors.strangers import text_of
from rowbus.messages.address import DEFAULT_DELAYED_SUFFIX
from rowbus.running.backoff import WAIT_WHEN_TRIGGERED
from rowbus.running.critical import Alarm, ReportedBreaker, report
from rowbus.running.waiting import cancel, pause
from rowbus.settings import FailureHandling, TransactionMode
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.delayed_store.decisions import FailureRate, is_outage
from rowbus.transport.delayed_store.forwarder import MOST_HELD, Alarms, Forwarder, Rules, scopes
from rowbus.transport.delayed_store.guarded_store import GuardedStore
from rowbus.transport.delayed_store.poller import OVERLAP, DatabaseClock, DelayedStorePoller
from rowbus.transport.delayed_store.store_receiver import StoreDelays, StoreReceiver
from rowbus.transport.delayed_store.table import QUALIFIER
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.destination_rule import Destinations, destination_rule
from rowbus.transport.queues.installer import create_queue, require_queues
from rowbus.transport.queues.table import queue_table
from rowbus.transport.receiving.delivery import Callbacks
from rowbus.transport.receiving.dispatcher import DelayService, Dispatcher
from rowbus.transport.receiving.preparation import prepare
from rowbus.transport.receiving.receiver import Receiver

if TYPE_CHECKING:
    from datetime import timedelta

    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.messages.headers import Identity
    from rowbus.running.critical import OnCriticalError
    from rowbus.settings import EndpointSettings
    from rowbus.transport.delayed_store.forwarder import Scopes
    from rowbus.transport.delayed_store.protocol import DelayedDeliverySettings, DelayedMessageStore
    from rowbus.transport.receiving.delivery import OnPoison

logger = logging.getLogger("rowbus.delaying")

SILENCE = 60.0  # seconds beside the longest call and wait, after which storing that failed is tried no more
MOST_STORING = 4  # messages stored at a time, each on a connection, however many handlers run


class Owner(NamedTuple):
    """The endpoint whose messages are delayed."""

    name: str
    addresses: Addresses
    settings: EndpointSettings
    identity: Identity
    error_queue: QueueAddress
    on_poison: OnPoison
    on_critical_error: OnCriticalError


def timeouts_queue(endpoint: str, addresses: Addresses) -> QueueAddress:
    """Return the address of the queue through which an endpoint's delayed messages reach its store."""
    return addresses.for_endpoint(endpoint, qualifier=QUALIFIER)


class DelayedStoreService(DelayService):
    """Delays an endpoint's messages in a store, in UTC, from `start` to `stop`. For one event loop."""

    def __init__(self, database: Database, owner: Owner, settings: DelayedDeliverySettings) -> None:
        """Put the parts together. No I/O."""
        self._database = database
        self._owner = owner
        self._settings = settings
        self._store = GuardedStore.of(settings.store, settings.store_timeout)
        self.queue = timeouts_queue(owner.name, owner.addresses)
        # A session for each message in hand or held, one for the intake's own sends, one that asks for the next.
        self._pool = database.pool(OVERLAP + MOST_HELD + 2)
        self._clock = DatabaseClock(self._pool, catalog_of(owner.addresses))
        self.delays = StoreDelays(self.queue, self._clock.reaching, notify=owner.settings.notifications)
        self._stopping = asyncio.Event()
        self._breakers: list[ReportedBreaker] = []
        self._is_prepared = False
        self._opening: asyncio.Task[None] | None = None
        self._poller: DelayedStorePoller | None = None
        self._receiver: Receiver | None = None

    async def install(self, session: AsyncSession) -> None:
        """Create the queue that is missing, or, if the endpoint is not to install, require it; prepare the store.

        Raises QueueNotFoundError, StorageError, what the store raises, and StoreUnavailableError for a store that is
        away: everything else is done then, and `start` waits for the store.
        """
        owner = self._owner
        await self._look_for_leftovers(session)
        if owner.settings.install:
            await create_queue(
                session,
                self.queue,
                body_string=owner.settings.body_string,
                notify_trigger=owner.settings.foreign_notifications,
            )
        else:
            await require_queues(session, [self.queue])
        try:
            await self._prepare(session)
        except Exception as error:
            if not is_outage(error):
                raise
            text = f"The delayed message store of {owner.name} is away: {text_of(error)}"
            raise StoreUnavailableError(text) from error

    async def start(self) -> None:
        """Begin to store what comes and to forward what is due; in the background, if the store is away.

        Raises ConnectionLostError.
        """
        await self._pool.open()
        await self._clock.measure()
        if self._is_prepared:
            await self._open()
        else:
            self._opening = asyncio.create_task(self._open_when_there(), name="rowbus delayed store start")

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Finish the messages in hand, then stop; after `timeout` seconds roll them back."""
        self._stopping.set()
        self._store.hurry()
        try:
            await self._stop_opening()
            await asyncio.gather(
                *(part.stop(timeout) for part in (self._receiver, self._poller) if part is not None)
            )
        finally:
            for breaker in self._breakers:
                breaker.ended()
            await self._pool.close()
            await self._close_store()

    async def _prepare(self, session: AsyncSession) -> None:
        """Initialize the store, and have it create what is missing, if the endpoint may."""
        settings = self._owner.settings
        await self._store.initialize(self._owner.name, settings.transaction_mode)
        if settings.install:
            await set_up(self._store, session)
        self._is_prepared = True

    async def _open(self) -> None:
        dispatcher = Dispatcher(self._pool, notify=self._owner.settings.notifications)
        found = await scopes(self._store, self._pool, dispatcher)
        rules = self._rules(dispatcher)
        self._poller = self._make_poller(found, rules)
        self._receiver = self._make_receiver(found, self._poller, dispatcher, rules)
        settings = dataclasses.replace(self._owner.settings, purge_on_startup=False)
        await prepare(self._database, [queue_table(self.queue)], settings)
        await self._receiver.start()
        await self._poller.start()

    async def _open_when_there(self) -> None:
        """Try to open the store until that works, or until `stop`; what is begun is left to `stop`."""
        trying = self._breaker(
            "Opening the delayed message store",
            "Failed to open the delayed message store",
            self._settings.time_to_trigger_fetch_circuit_breaker,
        )
        while not self._stopping.is_set():
            try:
                async with self._pool.session() as session:
                    await self._prepare(session)
                await self._open()
            except Exception as error:  # noqa: BLE001 - a store may raise anything
                await pause(self._stopping, trying.failed(error))
            else:
                trying.succeeded()
                return

    async def _stop_opening(self) -> None:
        if self._opening is not None:
            await cancel([self._opening])
            self._opening = None

    async def _close_store(self) -> None:
        try:
            await self._store.close()
        except Exception as error:  # noqa: BLE001 - a store may raise anything, and the endpoint stops all the same
            logger.warning("The delayed message store could not be closed: %s", error)

    async def _look_for_leftovers(self, session: AsyncSession) -> None:
        """Warn of messages that were delayed before the endpoint was given a store: no mover moves them."""
        owner = self._owner
        table = delayed_table(owner.addresses.for_endpoint(owner.name, qualifier=DEFAULT_DELAYED_SUFFIX))
        try:
            if await session.run(table.exists()) and (await session.run(table.state(1))).waiting:
                logger.warning(
                    "Delayed messages wait in %s, where this endpoint, which has a store, does not look; "
                    "`rowbus delayed move %s` moves them when they are due.",
                    table.address,
                    self._owner.name,
                )
        except StorageError as error:  # it is not ours to look into, perhaps
            logger.debug("Could not look into %s: %s", table.address, error)

    def _make_poller(self, found: Scopes, rules: Rules) -> DelayedStorePoller:
        settings = self._settings
        alarms = Alarms(
            self._breaker(
                "Fetching due delayed messages",
                "Failed to fetch due delayed messages from the storage",
                settings.time_to_trigger_fetch_circuit_breaker,
            ),
            self._breaker(
                "Asking when the next delayed message is due",
                "Failed to ask the storage when the next delayed message is due",
                settings.time_to_trigger_fetch_circuit_breaker,
            ),
            self._breaker(
                "Dispatching delayed messages",
                "Failed to dispatch delayed messages to destination",
                settings.time_to_trigger_dispatch_circuit_breaker,
            ),
            FailureRate(settings.maximum_recovery_failures_per_second, time.monotonic, hands=OVERLAP),
            self._report,
        )
        forwarder = Forwarder(found, rules, alarms, now=self._clock.reached, stopping=self._stopping)
        return DelayedStorePoller(forwarder, self._clock, alarms.looking)

    def _make_receiver(
        self, found: Scopes, poller: DelayedStorePoller, dispatcher: Dispatcher, rules: Rules
    ) -> Receiver:
        storing = self._breaker(
            "Storing delayed messages",
            "Failed to store delayed message",
            self._settings.time_to_trigger_store_circuit_breaker,
            lapses_after=self._settings.store_timeout.total_seconds() + WAIT_WHEN_TRIGGERED + SILENCE,
        )
        intake = StoreReceiver(
            found, rules, storing, poller.expect, now=self._clock.reached, stopping=self._stopping
        )
        callbacks = Callbacks(
            intake.on_message, intake.on_error, self._owner.on_poison, self._report, intake.decide_outage
        )
        # In every mode of the endpoint's handlers, a crash loses no message here.
        settings = dataclasses.replace(
            self._owner.settings,
            transaction_mode=TransactionMode.SENDS_ATOMIC_WITH_RECEIVE,
            failure_handling=FailureHandling.SAVEPOINT,
            concurrency=min(self._owner.settings.effective_concurrency, MOST_STORING),
        )
        return Receiver(self._database, self.queue, settings, callbacks, dispatcher)

    def _rules(self, dispatcher: Dispatcher) -> Rules:
        owner = self._owner
        allowed = destination_rule(owner.settings.allowed_destinations, self.queue)
        return Rules(
            self._settings.number_of_retries,
            self.queue,
            owner.error_queue,
            owner.identity,
            Destinations(allowed, self.queue, doubtful=dispatcher.doubtful),
            dispatcher.ask,
        )

    def _breaker(
        self, activity: str, failure: str, trigger_after: timedelta, *, lapses_after: float | None = None
    ) -> ReportedBreaker:
        alarm = Alarm(self._owner.on_critical_error, trigger_after, lapses_after=lapses_after)
        breaker = ReportedBreaker(activity, failure, logger, alarm)
        self._breakers.append(breaker)
        return breaker

    def _report(self, text: str, error: BaseException) -> None:
        report(self._owner.on_critical_error, text, error, logger)


async def set_up(store: DelayedMessageStore, session: AsyncSession) -> None:
    """Have an initialized store create its missing tables: on the session, if it shares the queues' database."""
    async with session.transaction():
        await (store.enlist(session.connection) or store).setup_infrastructure()
