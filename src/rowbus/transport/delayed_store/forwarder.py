"""One due message, from its store to its destination, or to the error queue.

The scope of the transaction in which it leaves its store is everything, or the store's part only.

Invariants: a message leaves the store only after it was sent, in the same transaction or in one that commits later; so
no failure, and no end of this process, loses it. A failure is counted before the message is tried again. What was sent
and could not be removed is not sent again by this process. One message that fails at every attempt keeps no other
waiting: it is held, locked, until its next attempt is due, and the store gives the others meanwhile. In a shared scope
what is sent and what is done to the store commit together or not at all. In a foreign one what is sent is committed
first, so that a message is never gone from the store and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from rowbus.errors import ConfigurationError, MalformedHeadersError, RowbusError
from rowbus.errors.strangers import exc_info_of
from rowbus.messages.dispatch import Send
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.message import OutgoingMessage
from rowbus.running.bounded import Bounded
from rowbus.running.waiting import pause
from rowbus.transport.delayed_store.decisions import AfterFailure, after_failure
from rowbus.transport.delayed_store.table import properties
from rowbus.transport.recoverability.failure_headers import RAW_HEADERS, failed_message

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from rowbus.database.sessions import AsyncSession, SessionPool
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.headers import Identity
    from rowbus.running.critical import ReportedBreaker
    from rowbus.transport.delayed_store.decisions import FailureRate
    from rowbus.transport.delayed_store.protocol import DelayedMessage, DelayedMessageStore
    from rowbus.transport.queues.destination_rule import Ask, Destinations
    from rowbus.transport.receiving.dispatcher import Dispatcher

logger = logging.getLogger("rowbus.delaying")

RECOVERING = "Failed to execute error handling for delayed message forwarding"
SENT_REMEMBERED = 10_000  # messages that were sent and could not be removed
MOST_HELD = 2  # attempts that wait after a failure and take no hand from other messages

_Key: TypeAlias = "tuple[str, datetime]"


class Scope(NamedTuple):
    """A store inside a transaction, and what sends beside it; a `send` that raises has sent nothing."""

    store: DelayedMessageStore
    send: Callable[[Send], Awaitable[None]]
    exactly_once: bool


class Scopes(Protocol):
    """The opener of one store's transactions."""

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


class _Phase(Enum):
    FETCH = "fetch"
    DISPATCH = "dispatch"
    RECOVER = "recover"


class _RemovedElsewhereError(RowbusError):
    """Another session removed a message that this transaction has locked and sent: it is rolled back."""


class Alarms(NamedTuple):
    """The watch over the forwarding, and who is told of trouble that a person should look at.

    Each breaker watches one kind of call: only a success of the same kind ends its outage.
    """

    fetching: ReportedBreaker
    looking: ReportedBreaker
    dispatching: ReportedBreaker
    recovering: FailureRate
    report: Callable[[str, BaseException], None]


class Rules(NamedTuple):
    """The grant to a message, and what becomes of it then."""

    retries: int
    queue: QueueAddress
    """The Timeouts queue, to which a message that was given up on can be returned."""
    error_queue: QueueAddress
    identity: Identity
    destinations: Destinations
    ask: Ask
    """Asks the queues' database."""


class Forwarder:
    """Forwards the messages of one store."""

    def __init__(
        self,
        scopes: Scopes,
        rules: Rules,
        alarms: Alarms,
        *,
        now: Callable[[], datetime],
        stopping: asyncio.Event,
    ) -> None:
        """Say what is forwarded and by which rules; `stopping` ends waits. No I/O."""
        self._scopes = scopes
        self._rules = rules
        self._alarms = alarms
        self._now = now
        self._stopping = stopping
        self._sent: Bounded[_Key, None] = Bounded(SENT_REMEMBERED)
        self._not_before: Bounded[_Key, float] = Bounded(SENT_REMEMBERED)
        self._holding = 0

    @property
    def held(self) -> int:
        """The number of attempts that wait that other messages need not wait for."""
        return min(self._holding, MOST_HELD)

    async def next_due(self) -> datetime | None:
        """Ask the store when its next message is due."""
        async with self._scopes.open() as scope:
            due = await scope.store.next()
        self._alarms.looking.succeeded()
        return due

    async def look_failed(self, error: BaseException) -> None:
        """Note that the store did not say when its next message is due; waits as the circuit breaker says."""
        await pause(self._stopping, self._alarms.looking.failed(error))

    async def forward_next(self, fetched: Callable[[DelayedMessage | None], None]) -> None:
        """Forward the next due message, if there is one; `fetched` is told as soon as that is known.

        Raises nothing: what fails is counted, logged and waited for.
        """
        phase, retried, message, failure = _Phase.FETCH, None, None, None
        try:
            async with self._scopes.open() as scope:
                message = await scope.store.fetch_next_due(self._now())
                self._alarms.fetching.succeeded()
                fetched(message)
                if message is not None:
                    phase = _Phase.DISPATCH
                    await self._hold(message)
                    failure = await self._dispatch(scope, message)
                    if failure is not None:
                        phase = _Phase.RECOVER
                        retried = await self._recover(scope, message, failure)
        except _RemovedElsewhereError as error:
            logger.warning("%s", error)
        except Exception as error:  # noqa: BLE001 - a store may raise anything
            await self._failed(phase, error, message)
        else:
            if message is not None:
                self._sent.pop(_key(message), None)
                await self._dispatched(message, failure, retried=retried is AfterFailure.RETRY)

    async def _hold(self, message: DelayedMessage) -> None:
        """Keep a message that failed before, and the store's lock on it, until its next attempt is due."""
        seconds = self._not_before.get(_key(message), 0.0) - time.monotonic()
        if seconds <= 0:
            return
        self._holding += 1
        try:
            await pause(self._stopping, seconds)
        finally:
            self._holding -= 1

    async def _put_off(self, message: DelayedMessage, error: Exception) -> None:
        """Wait as the circuit breaker says; who fetches the message meanwhile holds it for as long."""
        self._not_before[_key(message)] = time.monotonic() + self._alarms.dispatching.failed(error)
        await self._hold(message)

    # --- sending

    async def _dispatch(self, scope: Scope, message: DelayedMessage) -> Exception | None:
        """Send a message and remove it; return what is to be held against it. Raises in an outage."""
        if _key(message) not in self._sent:
            try:
                due = _due(message, self._rules.queue)
                await self._rules.destinations.require(due.destination, self._rules.ask)
                await self._send(scope, message, due)
            except Exception as error:
                if self._verdict(message, error) is AfterFailure.WAIT:
                    raise
                return error
        await self._remove(scope, message)
        return None

    async def _send(self, scope: Scope, message: DelayedMessage, send: Send) -> None:
        """Send, and remember what has left for good though it is yet to be removed."""
        await scope.send(send)
        if not scope.exactly_once:
            self._sent[_key(message)] = None

    async def _remove(self, scope: Scope, message: DelayedMessage) -> None:
        if await scope.store.remove(message):
            return
        if scope.exactly_once:
            raise _RemovedElsewhereError(
                f"Delayed message {message.message_id} was removed while it was locked; it is not sent from here."
            )
        logger.warning(
            "Delayed message %s was already removed from its store: it may have been sent more than once.",
            message.message_id,
        )

    # --- when that fails

    def _verdict(self, message: DelayedMessage, error: BaseException) -> AfterFailure:
        return after_failure(error, failures=message.number_of_retries, retries=self._rules.retries)

    async def _recover(self, scope: Scope, message: DelayedMessage, error: Exception) -> AfterFailure:
        """Count the failure, or move the message to the error queue."""
        verdict = self._verdict(message, error)
        if verdict is AfterFailure.GIVE_UP:
            logger.error(
                "Moving delayed message '%s' to the error queue '%s' because forwarding it to '%s' failed:",
                message.message_id,
                self._rules.error_queue,
                message.destination,
                exc_info=exc_info_of(error),
            )
            await self._send(scope, message, Send(self._rules.error_queue, self._given_up(message, error)))
            await self._remove(scope, message)
        elif not await scope.store.increment_failure_count(message):
            logger.info("Delayed message %s is already gone from its store", message.message_id)
        return verdict

    def _given_up(self, message: DelayedMessage, error: Exception) -> OutgoingMessage:
        """Return the error queue's copy; returned to the Timeouts queue it goes to its destination."""
        headers = {**_headers_for_people(message), **properties(message.destination, message.time)}
        return failed_message(
            headers=headers,
            body=message.body,
            error=error,
            failed_queue=self._rules.queue,
            identity=self._rules.identity,
            now=self._now(),
        )

    # --- alarms

    async def _dispatched(self, message: DelayedMessage, failure: Exception | None, *, retried: bool) -> None:
        self._not_before.pop(_key(message), None)
        if failure is None:
            self._alarms.dispatching.succeeded()
        elif retried:
            await self._put_off(message, failure)

    async def _failed(self, phase: _Phase, error: Exception, message: DelayedMessage | None) -> None:
        if phase is _Phase.FETCH:
            await pause(self._stopping, self._alarms.fetching.failed(error))
        elif message is not None and phase is _Phase.DISPATCH:
            await self._put_off(message, error)
        else:
            logger.warning("%s: %s", RECOVERING, error)
            recovery = self._alarms.recovering.failed()
            if recovery.critical:
                self._alarms.report(RECOVERING, error)
            await pause(self._stopping, recovery.wait)


def _key(message: DelayedMessage) -> _Key:
    """Return what tells a message from another one, also from one that is stored later under the same id."""
    return message.message_id, message.time


def _due(message: DelayedMessage, queue: QueueAddress) -> Send:
    """Return the send of a message that is due; raises for one that could not be sent."""
    headers = decode_headers(message.headers.decode("utf-8", "backslashreplace"))
    return Send(queue.neighbour(message.destination), OutgoingMessage(headers, message.body))


def _headers_for_people(message: DelayedMessage) -> dict[str, str | None]:
    """Return the headers of a message that is given up on, as text if they cannot be read."""
    text = message.headers.decode("utf-8", "backslashreplace")
    try:
        return {Header.MESSAGE_ID: message.message_id, **decode_headers(text)}
    except MalformedHeadersError:
        return {Header.MESSAGE_ID: message.message_id, RAW_HEADERS: text}
