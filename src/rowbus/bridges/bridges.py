"""Bridges between queues and logs, for users: `forward_events` and `drain_queue`.

Invariant: each message and event crosses in one transaction; log/archive.py says what is kept of a message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from rowbus.bridges.drain import BATCH_SIZE, QueueDrain
from rowbus.database.backends import borrow_async, open_postgresql
from rowbus.database.location import resolve_dsn
from rowbus.log.archive import archived_message, content_of
from rowbus.log.event import Event
from rowbus.messages.address import QueueAddress
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.message_types import serialize
from rowbus.messages.outgoing import Options, Origin, compose
from rowbus.messages.uuids import new_message_id
from rowbus.running.functions import check_function
from rowbus.transport.composition import identity_of
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.log.consumers.handlers import LogContext
    from rowbus.log.log import AsyncLog, Log
    from rowbus.messages.outgoing import Content
    from rowbus.settings import ConsumerSettings
    from rowbus.transport.queues.table import QueueTable

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
