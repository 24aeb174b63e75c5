"""A started endpoint: its receivers, its pipeline, its background services, its connections for sends.

Invariant: `stop` leaves nothing running, also after a `start` that failed.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from rowbus.endpoint.delayed_delivery import delay_service
from rowbus.endpoint.gathering import Gathering
from rowbus.endpoint.installation import install
from rowbus.endpoint.lanes import OrderedLanes, check_lanes, turns_of
from rowbus.endpoint.limits import can_wait, make_gate, make_places
from rowbus.endpoint.long_work import LongWork
from rowbus.endpoint.pipeline import Pipeline
from rowbus.endpoint.publication import ContractPublisher
from rowbus.endpoint.recovery import Recovery
from rowbus.endpoint.sender import Sender
from rowbus.endpoint.steps.audit import Audit, tell_sagas
from rowbus.endpoint.steps.chain import with_mutators, with_own_steps, with_steps
from rowbus.endpoint.steps.control_messages import keeping_sessions
from rowbus.endpoint.steps.duplicates import process_once
from rowbus.endpoint.steps.observation import Observation
from rowbus.endpoint.steps.throttle import Throttle
from rowbus.errors import StoreUnavailableError
from rowbus.messages.outgoing import Origin
from rowbus.platform.plug_ins import PlugIns
from rowbus.platform.reports import Reporter
from rowbus.running.loop_watch import LoopWatch
from rowbus.transport.claims.claim_table import ClaimKeeper
from rowbus.transport.deduplication.table import InboxKeeper, inbox_table
from rowbus.transport.history.table import history_table
from rowbus.transport.history.teller import HandlingTimes, HistoryTeller
from rowbus.transport.limits.table import LimitKeeper
from rowbus.transport.pauses.scale import Scale, TypeLimits
from rowbus.transport.pauses.table import Hold, PauseSubject, ScaleKind, pauses_address
from rowbus.transport.published_contracts.table import publishes
from rowbus.transport.pubsub.subscribers import Subscribers
from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.destination_rule import ANY_QUEUE, Destinations
from rowbus.transport.queues.table import queue_table
from rowbus.transport.receiving.delivery import Callbacks
from rowbus.transport.receiving.dispatcher import Dispatcher
from rowbus.transport.receiving.handler_watch import HandlerWatch
from rowbus.transport.receiving.preparation import ExpiredPurger, prepare
from rowbus.transport.receiving.receiver import Receiver
from rowbus.transport.receiving.rounds import Seclusion
from rowbus.transport.recurring.service import RecurringService
from rowbus.transport.uniqueness.table import UniqueKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.endpoint.parts import Parts
    from rowbus.endpoint.sender import FindSubscribers
    from rowbus.endpoint.steps.chain import Around
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.headers import Identity
    from rowbus.running.service import Service
    from rowbus.transport.lanes.turns import Turns
    from rowbus.transport.pauses.table import Pause
    from rowbus.transport.receiving.dispatcher import DelayService

logger = logging.getLogger("rowbus.endpoint")

SENDERS: Final = 8  # connections, at most, for the sends of tasks that are no handlers


class RunningEndpoint:
    """A started endpoint."""

    def __init__(self, parts: Parts, database: Database) -> None:
        """Put the parts together. No I/O."""
        self.database = database
        self._parts = parts
        self._living = AsyncExitStack()  # what handlers are given for as long as the endpoint is started
        self._identity = parts.identity
        # For sends outside the receive transaction, of handlers and of others: opened when first needed.
        self._pool = database.pool(max(SENDERS, parts.settings.effective_concurrency))
        self._delays = delay_service(parts, database, self._identity)
        self.dispatcher = Dispatcher(
            self._pool,
            notify=parts.settings.notifications,
            delays=self._delays.delays,
            catalog=catalog_of(parts.addresses),
        )
        self.gathering = Gathering(self.dispatcher.dispatch)
        self.subscribers = self._make_subscribers(parts)
        self.sender = make_sender(parts, self._identity, self.subscribers.of)
        self._inbox = None if parts.inbox is None else inbox_table(parts.inbox)
        self._plug_ins = PlugIns(
            parts.settings.service_platform,
            parts.checks,
            parts.addresses,
            identity=self._identity,
            address=parts.address,
            dispatcher=self.dispatcher,
            database=database,
        )
        self._times = [HandlingTimes(address) for address in parts.inputs]
        self._pipeline = Pipeline(parts.handlers, self.sender)
        self._observation = Observation(parts.name)
        self._watch = LoopWatch(["/rowbus/endpoint/pipeline.py", "/rowbus/endpoint/dependencies.py"], logger)
        self._throttle = Throttle(parts.settings, self._set_concurrency, parts.observers)
        change, wanted = self._throttle.change_concurrency, parts.settings.effective_concurrency
        self.concurrency = Scale(ScaleKind.CONCURRENCY, parts.name, wanted, change)
        """The number of messages that every receiver processes at a time."""
        self._long = (
            None
            if parts.long_work is None
            else LongWork(database, self._pool, parts, self._pipeline, self.dispatcher, inbox=self._inbox)
        )
        check_lanes(parts)
        self._seclusion, self._gate = Seclusion(), make_gate(parts)
        self._types = TypeLimits(parts.name, parts.handlers.names, can_wait=can_wait(parts))
        self._places = make_places(parts, self._types)
        self._receivers = [self._make_receiver(address) for address in parts.queues]
        self._ordered, self._turns = self._make_lanes(parts)
        publishing = publishes(parts.settings, parts.addresses)
        self._publisher = ContractPublisher(self._pool, parts) if publishing else None
        self._handler_watch = self._make_handler_watch(parts)
        self._background = [*self._make_background(parts)]

    def _make_subscribers(self, parts: Parts) -> Subscribers:
        return Subscribers(
            self._pool,
            subscription_routing(parts.subscriptions),
            remember=parts.settings.subscription_cache.total_seconds(),
            destinations=Destinations(
                ANY_QUEUE,
                parts.address,
                named_by=f"A subscription in {parts.subscriptions}",
                doubtful=self.dispatcher.doubtful,
            ),
        )

    def _make_lanes(self, parts: Parts) -> tuple[OrderedLanes | None, Turns | None]:
        lanes, addresses = parts.lanes, parts.lane_addresses
        if lanes is None:
            return None, None
        if lanes.is_ordered:
            make = partial(self._make_receiver, keeps_place=True)
            return OrderedLanes(self.database, parts.address, addresses, make, parts.alarm), None
        turns = turns_of(lanes, parts)
        self._receivers += [self._make_receiver(address) for address in addresses]
        for receiver in self._receivers:
            receiver.turns = turns
        return None, turns

    def _make_receiver(self, address: QueueAddress, *, keeps_place: bool = False) -> Receiver:
        parts = self._parts
        receiver = Receiver(
            self.database,
            address,
            parts.settings,
            self._callbacks(address, keeps_place=keeps_place),
            self.dispatcher,
            seclusion=self._seclusion,
            gate=self._gate,
        )
        receiver.places, receiver.inbox = self._places, self._inbox
        paused = {address} if address in parts.queues else {address, parts.address}
        names = [PauseSubject("endpoint", parts.name), *(PauseSubject("queue", str(one)) for one in paused)]
        receiver.hold = Hold(pauses_address(parts.addresses), names, hear=self._hear)
        return receiver

    async def start(self) -> None:
        """Install what is missing, subscribe to the events handled, purge if asked to, and begin to receive."""
        try:
            await install(self.database, self._parts, self._delays, self._begin)
        except StoreUnavailableError as error:  # everything but the store, which the delay service waits for
            logger.warning("%s; the endpoint goes on, and what it delays waits in its Timeouts queue", error)
        await self._pool.open()
        handlers = self._parts.handlers
        handlers.dependencies.living = await self._living.enter_async_context(handlers.dependencies.made())
        handlers.subscribes = self._parts.settings.auto_subscribe
        if handlers.subscribes:
            await self.subscribe(handlers.events())
        self._watch.start()
        await self._delays.catch_up()
        queues = map(queue_table, self._parts.inputs)  # lanes with order, too, whose receivers come and go
        await prepare(self.database, queues, self._parts.settings)
        for part in (*self._drained(), *self._background):
            await part.start()

    def _hear(self, found: Sequence[Pause]) -> None:
        """Note what operators say."""
        self.concurrency.hear(found)
        self._types.hear(found)

    def _drained(self) -> Iterator[Receiver | DelayService | Service]:
        """Give what finishes the messages that it has in hand before the rest ends."""
        yield from self._receivers
        yield self._delays
        yield from (service for service in (self._ordered, self._long) if service is not None)

    async def _begin(self, session: AsyncSession) -> None:
        """Publish the contract; hear what operators say before the first message: a restart does not undo that."""
        pauses, publisher = self._handler_watch.table, self._publisher
        if pauses is None:
            return
        usable = await session.run(
            pauses.which_can_be_used(*([] if publisher is None else [publisher.table]))
        )
        if publisher is not None:
            await publisher.begin(session, can_be_used=publisher.table.address in usable)
        if pauses.address in usable:
            await self._handler_watch.listen(session)

    async def stop(self, timeout: float | None) -> None:  # noqa: ASYNC109 - a grace period
        """Drain the receivers, or interrupt them after `timeout` seconds; then close everything."""
        self._throttle.end()
        self._pipeline.stop()
        try:
            await asyncio.gather(*(part.stop(timeout) for part in self._drained()))
        finally:
            if self._turns is not None:
                await self._turns.shelf.close()
            self._watch.stop()
            self._pipeline.close()
            for service in self._background:
                await service.stop(0)
            await self.subscribers.close()
            await self._pool.close()
            self._parts.handlers.subscribes = None
            self._parts.handlers.dependencies.living = {}
            await self._living.aclose()

    def _set_concurrency(self, concurrency: int) -> None:
        for receiver in self._receivers:
            receiver.change_concurrency(concurrency)
        if self._turns is not None:
            self._turns.change(concurrency)

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Have copies of these events come to the endpoint's queue, the one that its instances share."""
        parts = self._parts
        if await self.subscribers.subscribe(parts.name, topics, parts.address):
            logger.info("Endpoint %s subscribes to %s", parts.name, ", ".join(topics))

    async def unsubscribe(self, topics: Sequence[str]) -> None:
        """Have no more copies of these events come."""
        if ended := await self.subscribers.unsubscribe(self._parts.name, topics):
            logger.info("Endpoint %s no longer subscribes to %s", self._parts.name, ", ".join(ended))

    def _callbacks(self, address: QueueAddress, *, keeps_place: bool) -> Callbacks:
        parts, inbox, meter = self._parts, self._inbox, self._plug_ins.meter
        observers = (
            *parts.observers,
            *self._observation.observers,
            *(() if meter is None else (meter.observe,)),
        )
        recovery = Recovery(parts, address, self._identity, observers, keeps_place=keeps_place)
        on_error = self._throttle.on_error(recovery.on_error)
        audit = Audit(parts, self._identity)
        handlers = with_mutators(with_own_steps(self._pipeline, parts.steps), parts.mutators)
        times = next(one for one in self._times if one.queue == address)
        measure = None if meter is None else meter.around
        outer = (times.around, self._observation.around)
        inner = (self._throttle.around, measure, audit.around, self._saga_audit())
        once: Around | None = None if inbox is None else lambda proceed: partial(process_once, inbox, proceed)
        sessions = partial(keeping_sessions, can_delay=parts.can_delay)
        on_message = with_steps(handlers, *outer, sessions, *inner, once)
        if self._long is not None:
            handle = with_steps(handlers, *outer, *inner)
            on_message = self._long.around(on_message, once, handle, on_error)
        return Callbacks(
            on_message,
            on_error,
            recovery.on_poison,
            parts.on_critical_error,
            threads=self._pipeline.threads if parts.handlers.has_functions else None,
        )

    def _saga_audit(self) -> Around | None:
        queue = self._parts.saga_audit
        if queue is None:
            return None
        reporter = Reporter(self._identity, self._parts.address)
        return lambda proceed: partial(tell_sagas, reporter, queue, proceed)

    def _make_background(self, parts: Parts) -> Iterator[Service]:
        """Make what runs beside the receivers."""
        settings, pool, alarm = parts.settings, self._pool, parts.alarm
        if self._inbox is not None and settings.deduplicate_for is not None:
            yield InboxKeeper(pool, self._inbox, settings.deduplicate_for, alarm)
        for address in parts.claimed_values:
            yield ClaimKeeper(pool, address, alarm)
        if (period := settings.purge_expired_every) is not None:
            tables = [queue_table(address) for address in parts.inputs]
            batch_size = settings.purge_expired_batch_size
            yield ExpiredPurger(pool, tables, alarm, period=period, batch_size=batch_size)
        if parts.schedules is not None:
            yield self._make_recurring(parts, parts.schedules)
        if parts.limits is not None:
            yield LimitKeeper(pool, parts.limits, alarm)
        if parts.unique is not None:
            yield UniqueKeeper(pool, parts.unique, alarm)
        yield self._handler_watch
        if parts.address.backend == "postgresql":
            yield HistoryTeller(pool, history_table(parts.addresses), self._times)
        if self._publisher is not None:
            yield self._publisher
        yield from self._plug_ins.services

    def _make_recurring(self, parts: Parts, schedules: QueueAddress) -> RecurringService:
        return RecurringService(
            self._pool,
            schedules,
            [message.bound(self.sender, self.dispatcher) for message in parts.recurring],
            catalog_of(parts.addresses).clock,
            parts.alarm,
            hold=Hold(
                pauses_address(parts.addresses),
                [PauseSubject("recurring", f"{parts.name}/{message.name}") for message in parts.recurring],
            ),
        )

    @property
    def ordered_receivers(self) -> Sequence[Receiver]:
        """The receivers of the lanes with order that this process has now."""
        return () if self._ordered is None else tuple(self._ordered.serving.values())

    def _make_handler_watch(self, parts: Parts) -> HandlerWatch:
        return HandlerWatch(
            parts.name,
            lambda: (*self._receivers, *self.ordered_receivers),  # those of now: lanes come and go
            parts.handlers.plans.__getitem__,
            pool=self._pool,
            pauses=pauses_address(parts.addresses) if parts.address.backend == "postgresql" else None,
            alarm=parts.alarm,
            hear=self._hear,
        )


def make_sender(parts: Parts, identity: Identity, subscribers: FindSubscribers) -> Sender:
    """Return what composes an endpoint's messages."""
    return Sender(
        parts.addresses,
        Origin(identity, parts.address.canonical),
        subscribers=subscribers,
        instance=parts.instance,
        can_delay=parts.can_delay,
        serializer=parts.handlers.serializers.main,
        local=parts.address,
        routes=parts.routes,
        delayed=parts.delayed,
        mutators=parts.mutators,
    )
