"""Bridges between queues and logs, for users: `forward_events`, `drain_queue`, and the drain that works for them.

Invariants: each message and event crosses in one transaction; log/archive.py says what is kept of a message; a message
leaves its queue and arrives in the log in the same transaction, so it is in exactly one of them at every commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from rowbus.database.backends import borrow_async, open_postgresql
from rowbus.database.location import resolve_dsn
from rowbus.database.sessions import connected
from rowbus.log.archive import archived_event, archived_message, content_of
from rowbus.log.event import Event
from rowbus.messages.address import QueueAddress
from rowbus.messages.message import OutgoingMessage, new_message_id
from rowbus.messages.message_types import serialize
from rowbus.messages.outgoing import Options, Origin, compose
from rowbus.running.critical import Alarm, ReportedBreaker, log_critical
from rowbus.running.functions import check_function
from rowbus.running.service import Service
from rowbus.running.waiting import pause_unless_notified
from rowbus.settings import LARGEST_MESSAGE
from rowbus.transport.composition import identity_of
from rowbus.transport.events import log_table
from rowbus.transport.queues.table import queue_table
from rowbus.transport.receiving.decisions import FROM_THE_START, MARGIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.log.consumers.handlers import LogContext
    from rowbus.log.log import AsyncLog, Log
    from rowbus.messages.outgoing import Content
    from rowbus.settings import ConsumerSettings
    from rowbus.transport.queues.table import QueueTable

logger = logging.getLogger("rowbus.bridge")

BATCH_SIZE = 100  # messages moved in one transaction
POLL_DELAY = 1.0  # seconds between looks at an empty queue, when no notification comes
MOST_PASSED_OVER = 10_000  # rows too large to be moved, at the head of a queue
ALARM = Alarm(log_critical(logger))


class QueueDrain(Service):
    """Moves the messages of a queue to a log; for one event loop. Several may work side by side."""

    def __init__(
        self,
        database: Database,
        queue: QueueAddress,
        log: str,
        *,
        batch_size: int = BATCH_SIZE,
        alarm: Alarm = ALARM,
    ) -> None:
        """Take the queue and the log, and how many messages a transaction moves. No I/O."""
        outages = ReportedBreaker(f"Draining {queue}", f"Draining {queue} failed", logger, alarm)
        super().__init__(f"rowbus drain {queue}", outages)
        self._database = database
        self._queue = queue_table(queue)
        self._log = log_table(log)
        self._batch_size = batch_size
        self._passed_over: list[int] = []
        self.moved = 0
        """The number of messages moved so far."""

    async def drain(self) -> int:
        """Move all messages of the queue but those that are locked; return how many.

        Each batch is committed. Raises QueueNotFoundError, LogNotFoundError, StorageError: then the batch in hand is
        back in the queue.
        """
        before = self.moved
        async with connected(self._database) as session:
            await self._drain(session)
        return self.moved - before

    async def prepare(self) -> None:
        """Drain the queue. Raises as `drain`, for what it finds at first."""
        await self.drain()

    async def work(self) -> None:
        """Move what comes."""
        async with connected(self._database) as session:
            await session.run_all(self._queue.listen())
            while not self._stopping.is_set():
                await self._drain(session)
                self._outages.succeeded()
                await pause_unless_notified(session, self._stopping, POLL_DELAY)

    async def _drain(self, session: AsyncSession) -> None:
        """Move batches; as a receiver does, from a little below the last position, then once more from the start."""
        bound = FROM_THE_START
        while not self._stopping.is_set():
            last = await self._move(session, bound)
            if last is not None:
                bound = last - MARGIN
            elif bound == FROM_THE_START:
                if not await self._pass_over_oversized(session):
                    return
            else:
                bound = FROM_THE_START

    async def _move(self, session: AsyncSession, bound: int) -> int | None:
        """Move one batch in one transaction; return its last position, None when there was nothing."""
        async with session.transaction():
            receive = self._queue.receive(self._batch_size, bound, passed_over=self._passed_over)
            rows = await session.run(receive)
            if not rows:
                return None
            events = [archived_event(self._log.name, row, self._queue.address) for row in rows]
            await session.run(self._log.append_batch(events))
        self.moved += len(rows)
        logger.info("Moved %s messages from %s to log %s", len(rows), self._queue.address, self._log.name)
        return rows[-1].seq

    async def _pass_over_oversized(self, session: AsyncSession) -> bool:
        """Find messages too large to move: they stay in the queue, logged once. Return whether there were new ones."""
        most = self._batch_size + len(self._passed_over)
        oversized = await session.run(self._queue.find_oversized(most, most_bytes=LARGEST_MESSAGE))
        found = [message for message in oversized if message.seq not in self._passed_over]
        for message in found:
            logger.error(
                "Row %s of %s has %s bytes, more than %s; it stays in the queue.",
                message.id,
                self._queue.address,
                message.size,
                LARGEST_MESSAGE,
            )
        self._passed_over = [message.seq for message in oversized][:MOST_PASSED_OVER]
        return bool(found)


LOG_HEADER = "Rowbus.Log"
EVENT_HEADER = "Rowbus.EventId"

MessageOfEvent = Callable[[Event], object]
"""Makes a message object of an event; None: send nothing."""


def forward_events(  # noqa: PLR0913 - those of a client, beside its own
    log: Log | AsyncLog,
    consumer: str,
    destination: str | QueueAddress,
    *,
    message: MessageOfEvent | None = None,
    schema: str = "public",
    settings: ConsumerSettings | None = None,
    endpoint: str | None = None,
    machine: str | None = None,
    host_id: str | None = None,
) -> None:
    """Register a consumer of the log that sends a message for each event, in one transaction with its position.

    `message` makes the message object (None: no message for this event); dicts and bytes go by the event's type.
    Without it, a message that was drained into the log is sent as it was, id and headers too; any other event's data
    becomes the body and its type the message's. An event of which no message can be made is retried and then put
    aside, as any event whose handler fails. Messages that are made say who sends: `endpoint`, `machine` and `host_id`,
    by default as a `Client`. Raises InvalidAddressError, ConfigurationError.
    """
    if message is not None:
        check_function(message, "message, which makes the message of an event,", "event")
    address = _address(destination, schema)
    origin = Origin(identity_of(endpoint, machine, host_id))
    forwarder = _Forwarder(log.name, queue_table(address), message, origin)
    log.consumer(consumer, batch=True, settings=settings)(forwarder.forward)


async def drain_queue(
    queue: str | QueueAddress,
    log: str,
    *,
    database: str | None = None,
    schema: str = "public",
    batch_size: int = BATCH_SIZE,
) -> int:
    """Move all messages of a queue, an error or audit queue perhaps, to a log; return how many.

    A transaction for each `batch_size` messages; messages that another receiver holds stay. `rowbus.archived_message`
    makes messages of the events again. Raises QueueNotFoundError, LogNotFoundError, StorageError.
    """
    dsn = await asyncio.to_thread(resolve_dsn, database)
    drain = QueueDrain(
        open_postgresql(dsn, application_name="rowbus drain"),
        _address(queue, schema),
        log,
        batch_size=batch_size,
    )
    return await drain.drain()


class _Forwarder:
    """The handler of a forwarding consumer."""

    def __init__(self, log: str, table: QueueTable, make: MessageOfEvent | None, origin: Origin) -> None:
        self._log = log
        self._table = table
        self._make = make
        self._origin = origin

    async def forward(self, events: Sequence[Event], context: LogContext) -> None:
        """Send what the events give; raises for the first that gives no message, and then sends nothing."""
        messages = [found for event in events if (found := self._message(event)) is not None]
        if messages:
            session = await borrow_async(context.connection).session()
            await session.run_all(self._table.send_all(messages, notify=True))

    def _message(self, event: Event) -> OutgoingMessage | None:
        if self._make is not None:
            made = self._make(event)
            return None if made is None else self._compose(event, _content_of(made, event))
        kept = archived_message(event)
        if kept is not None:
            return OutgoingMessage(kept.decode_headers(), kept.body or b"")
        return self._compose(event, content_of(event))

    def _compose(self, event: Event, content: Content) -> OutgoingMessage:
        headers = {LOG_HEADER: self._log, EVENT_HEADER: str(event.id)}
        return compose(
            content,
            intent="Send",
            message_id=new_message_id(),
            now=event.time,
            origin=self._origin,
            options=Options(headers),
        )


def _content_of(made: object, event: Event) -> Content:
    by_itself = not isinstance(made, (dict, bytes, bytearray))
    return serialize(made, types=() if by_itself or event.type is None else (event.type,))


def _address(queue: str | QueueAddress, schema: str) -> QueueAddress:
    if isinstance(queue, QueueAddress):
        return queue
    address = QueueAddress.from_user(queue, schema)
    address.validate()
    return address
