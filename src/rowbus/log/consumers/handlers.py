"""The handlers of a log's events, and the contexts that they are given.

Invariant: what a handler does through its context, but for what it sends at once, commits with the position of its
consumer, or not at all.
"""

from __future__ import annotations

import asyncio
import inspect
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rowbus.database.postgresql.connection import AsyncSession, Session
from rowbus.database.statements import BlockingSession, run_as_one
from rowbus.errors import ConfigurationError
from rowbus.log.consumers.consumer import EventsSubject, LogConsumer
from rowbus.log.consumers.event_attempts import Handling
from rowbus.log.consumers.lanes import LogLanes
from rowbus.log.consumers.policy import DeadLetter, RetryAfter, Verdict
from rowbus.log.consumers.table import ConsumerTable
from rowbus.messages.address import DEFAULT_SCHEMA, PostgresAddresses
from rowbus.messages.outgoing import Origin
from rowbus.running import functions
from rowbus.running.functions import Contexts, check_handler
from rowbus.running.handling import concerning, note_calls_on, refuse_forgotten, refuse_unbegun
from rowbus.running.threads import Threads
from rowbus.transport.client import Inserts
from rowbus.transport.composition import Composer, identity_of
from rowbus.transport.lanes.rule import require_lanes
from rowbus.transport.pubsub.publication import publish
from rowbus.transport.send_verbs import AsyncSendVerbs, HandlerVerbs, SendVerbs
from rowbus.transport.uniqueness.sending import leave_once

T = TypeVar("T")

if TYPE_CHECKING:
    from rowbus.database.postgresql.database import Database
    from rowbus.database.postgresql.handler_connection import HandlerConnection, SyncHandlerConnection
    from rowbus.database.sessions import SessionPool
    from rowbus.database.statements import UserSession
    from rowbus.log.consumers.event_attempts import EventAttempt, Keys
    from rowbus.log.event import Batch, Event
    from rowbus.messages.dispatch import AnySend, Multicast
    from rowbus.messages.outgoing import UniqueMessageId
    from rowbus.running.critical import Alarm
    from rowbus.settings import ConsumerSettings
    from rowbus.transport.composition import Incoming
    from rowbus.transport.lanes.rule import Lanes
    from rowbus.transport.uniqueness.table import UniqueSend

    Leave = Callable[[UserSession], Coroutine[Any, Any, T]]

SUBSCRIPTIONS = "SubscriptionRouting"


class ConsumerSender:
    """Makes the messages of one consumer's handlers, and sends those that leave at once; one for all their calls."""

    def __init__(self, log: str, consumer: str, pool: SessionPool) -> None:
        """Send at once through sessions of this pool. No I/O."""
        self.log = log
        self.consumer = consumer
        self.composer = Composer(PostgresAddresses(DEFAULT_SCHEMA), Origin(identity_of()))
        self.inserts = Inserts(self.composer.address(SUBSCRIPTIONS))
        self._pool = pool

    async def send_now(self, leave: Leave[T]) -> T:
        """Have something leave in a transaction of its own."""
        await self._pool.open()
        async with self._pool.session() as session:
            return await leave(session)

    async def close(self) -> None:
        """Close the sessions of what was sent at once."""
        await self._pool.close()


# Takes (event or events) or (…, context); returns None, or an awaitable of None.
HandlerFunction = Callable[..., Any]


class EventContext(HandlerVerbs):
    """The facts of the batch in hand, and verdicts on single events; common to both kinds of context."""

    def __init__(self, attempt: EventAttempt, sender: ConsumerSender) -> None:
        """Stand between a handler and its transaction."""
        self._attempt = attempt
        self._sender = sender
        self.log = sender.log
        self.consumer = sender.consumer

    @property
    def batch(self) -> Batch:
        """The batch in hand: its id, the same until it is finished, and the ticks it lies between."""
        return self._attempt.batch

    def retry(self, event: Event, after: timedelta) -> None:
        """Have an event delivered again, to this consumer alone; what was done for it stands.

        For one event of several that could not be dealt with: raising undoes the others too. Delays are whole seconds,
        rounded up. There is no limit to retries asked for.
        """
        self._judge(event, RetryAfter(max(0, -(-after // timedelta(seconds=1)))))

    def dead_letter(self, event: Event, reason: str) -> None:
        """Put an event aside with a reason, until it is replayed or purged; what was done for it stands."""
        self._judge(event, DeadLetter(reason.replace("\x00", "")))

    @abstractmethod
    def _session(self) -> UserSession:
        """Return a session on the handler's connection."""

    def _composing(self) -> tuple[Composer, Incoming]:
        return self._sender.composer, None

    async def _send_by(self, leave: Leave[T], *, immediate: bool) -> T:
        if immediate:
            return await self._on_loop(self._sender.send_now(leave))
        return await leave(self._session())

    async def _leave(self, send: AnySend, *, immediate: bool) -> None:
        statements = self._sender.inserts.of(send)
        await self._send_by(lambda session: run_as_one(session, statements), immediate=immediate)

    async def _leave_once(self, unique: UniqueSend, *, immediate: bool) -> UniqueMessageId:
        notify = self._sender.inserts.notify
        return await self._send_by(
            lambda session: leave_once(session, unique, notify=notify), immediate=immediate
        )

    async def _leave_to_all(self, event: Multicast, *, immediate: bool) -> None:
        publication = self._sender.inserts.publication(event)
        await self._send_by(lambda session: publish(session, publication), immediate=immediate)

    def _judge(self, event: Event, verdict: Verdict) -> None:
        self._attempt.verdicts[event.id] = (event, verdict)


class LogContext(EventContext, AsyncSendVerbs):
    """The context of an `async def` handler of events.

    It sends and publishes as a `Context` does; what it sends leaves with the transaction of `connection`.
    """

    def __init__(self, attempt: EventAttempt, sender: ConsumerSender) -> None:
        """Stand between a handler and its transaction."""
        super().__init__(attempt, sender)
        self._calls = []

    @property
    def connection(self) -> HandlerConnection:
        """Psycopg's connection of the transaction that also moves the consumer's position.

        What is executed here commits with the position, and is undone when the handler raises. It cannot be committed
        or rolled back by the handler.
        """
        return note_calls_on(self._attempt.connection, self)

    def _session(self) -> UserSession:
        return AsyncSession(self.connection)


class SyncLogContext(EventContext, SendVerbs):
    """The context of a `def` handler of events, which runs in a thread; see `LogContext`."""

    def __init__(
        self, attempt: EventAttempt, sender: ConsumerSender, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Stand between a handler in a thread and its transaction."""
        super().__init__(attempt, sender)
        self._loop = loop

    @property
    def connection(self) -> SyncHandlerConnection:
        """Psycopg's connection; see `LogContext.connection`. For this handler's thread only."""
        return self._attempt.sync_connection

    def _session(self) -> UserSession:
        return BlockingSession(Session(self.connection))


class Consumer(NamedTuple):
    """One registered handler: whose events, and how it is to be called."""

    log: str
    name: str
    subconsumer: str | None
    function: HandlerFunction
    batch: bool
    keys: Keys
    settings: ConsumerSettings
    lanes: Lanes | None = None

    def build(self, database: Database, alarm: Alarm) -> tuple[LogConsumer | LogLanes, Caller]:
        """Return what consumes, and what calls the function; to be started and closed together."""
        at_once = self.settings.workers if self.lanes is None else len(self.lanes.names)
        caller = Caller(self, ConsumerSender(self.log, self.name, database.pool(at_once)))
        handling = Handling(
            caller.call, one_by_one=not self.batch, keys=self.keys, keep_tasks=self.settings.keep_tasks
        )
        if self.lanes is not None:
            lanes = LogLanes(
                database, (self.log, self.name), self.lanes, self.settings, handling=handling, alarm=alarm
            )
            return lanes, caller
        table = ConsumerTable(self.log, self.name, self.subconsumer)
        return LogConsumer(database, table, self.settings, handling, alarm), caller


def check_lanes(
    name: str, lanes: object, keys: Keys, subconsumer: str | None, settings: ConsumerSettings
) -> None:
    """Raise ConfigurationError for lanes that a consumer cannot have."""
    given = require_lanes(lanes)
    reasons = (
        (given is not None and given.is_ordered, "give lanes=rowbus.by_key(8)"),
        (bool(keys), "say by `key` which events have to stay in order"),
        (subconsumer is None, "members of a cooperative consumer get whole batches"),
        (settings.workers == 1, "give more lanes instead of workers"),
        (not settings.whole_batches, "whole_batches is one transaction for all events of a batch"),
        (settings.stand_by, "a lane belongs to one session, which stand_by=False does without"),
    )
    for is_so, reason in reasons:
        if not is_so:
            raise ConfigurationError(f"Consumer {name} cannot have these lanes: {reason}.")


class Caller:
    """Calls a handler: `async def` ones on the loop, `def` ones in threads, with a context if it takes one."""

    def __init__(self, consumer: Consumer, sender: ConsumerSender) -> None:
        """Find out what the function takes. Raises ConfigurationError for one that cannot be a handler."""
        self._consumer = consumer
        self._sender = sender
        self._takes_context = takes_context(consumer.function)
        self._is_async = inspect.iscoroutinefunction(consumer.function)
        self._name = functions.qualified_name(consumer.function)
        self._threads = Threads("rowbus-consumer")

    async def call(self, events: Sequence[Event], attempt: EventAttempt) -> None:
        """Call the handler with the events, or with the only one; raises what it raises."""
        given: object = list(events) if self._consumer.batch else events[0]
        with concerning(
            EventsSubject(self._consumer.log, self._consumer.name, attempt.batch, events, self._name)
        ):
            await (self._call if self._is_async else self._call_in_thread)(given, attempt)

    async def _call(self, given: object, attempt: EventAttempt) -> None:
        function = self._consumer.function
        context = LogContext(attempt, self._sender) if self._takes_context else None
        returned = await (function(given) if context is None else function(given, context))
        if returned is not None:
            refuse_unbegun(function, returned)
        if context is not None:
            refuse_forgotten(context)

    def stop(self) -> None:
        """From now on wait only for a moment for a `def` handler that is cancelled; see `Threads.run`."""
        self._threads.stop()

    async def close(self) -> None:
        """Let the threads end, and close what sends at once."""
        self._threads.close()
        await self._sender.close()

    async def _call_in_thread(self, given: object, attempt: EventAttempt) -> None:
        """Run a `def` handler in a thread, and wait for its end also when cancelled: see `Threads.run`."""
        call = partial(self._consumer.function, given)
        if self._takes_context:
            loop = asyncio.get_running_loop()
            call = partial(call, SyncLogContext(attempt, self._sender, loop))
        returned = await self._threads.run(partial(copy_context().run, call), attempt)
        refuse_unbegun(self._consumer.function, returned)


def takes_context(function: HandlerFunction) -> bool:
    """Say whether a handler takes a context; raises ConfigurationError for a function that cannot be one."""
    check_handler(function, Contexts(LogContext, SyncLogContext, HandlerVerbs))
    return functions.takes_context(function, "event", more="; with batch=True, events")
