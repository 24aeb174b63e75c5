"""The work that both clients share: make messages, find the tables they go to, now or later.

Invariant: no I/O; what is made here is run by a client, in its user's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from rowbus.messages.address import DEFAULT_DELAYED_SUFFIX, QueueAddress
from rowbus.messages.addresses import address_of
from rowbus.messages.headers import Header, encode_copied_headers
from rowbus.messages.identity import Identity
from rowbus.messages.message_types import DEFAULT, refuse_command, serialize
from rowbus.messages.mutators import checked_mutators, put_on
from rowbus.messages.outgoing import Content, HeaderText, Options, Origin, compose
from rowbus.messages.uuids import new_message_id, new_message_ids
from rowbus.running.bounded import Bounded
from rowbus.running.host import this_host, this_program
from rowbus.settings import host_digits
from rowbus.transport.delayed.policy import marked
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.pubsub.subscription import topics_of
from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.table import destination_table

if TYPE_CHECKING:
    from rowbus.database.statements import Query, Row, Statement
    from rowbus.database.steps import Steps
    from rowbus.messages.addresses import Addresses
    from rowbus.messages.bodies.serializer import Serializer
    from rowbus.messages.message import OutgoingMessage
    from rowbus.messages.mutators import Mutator
    from rowbus.transport.delayed.table import DelayedTable
    from rowbus.transport.pubsub.table import SubscriptionRouting
    from rowbus.transport.queues.table import MessageTable, QueueTable

Destination = str | QueueAddress


class Composer:
    """What both clients share: making messages, finding queues."""

    def __init__(  # noqa: PLR0913 - options, each by keyword
        self,
        addresses: Addresses,
        reply_to: Destination | None,
        subscription_table: Destination,
        delay_through: str | None,
        *,
        notify: bool,
        serializer: Serializer = DEFAULT,
        sender: Identity | None = None,
        mutators: Sequence[Mutator] = (),
        create_missing: bool = False,
    ) -> None:
        self._create_missing = create_missing
        self._serializer = serializer
        self._mutators = checked_mutators(mutators)
        self._addresses = addresses
        self._delay_through = None if delay_through is None else _delayed_queue_of(delay_through, addresses)
        self._subscriptions = self._address(subscription_table)
        self._origin = Origin(
            sender or identity_of(), None if reply_to is None else self._address(reply_to).canonical
        )
        self._notify = notify

    @cached_property
    def _routing(self) -> SubscriptionRouting:
        """Who subscribes to what; most clients are made for a transaction, and never ask."""
        return subscription_routing(self._subscriptions)

    def _address(self, destination: Destination) -> QueueAddress:
        return address_of(destination, self._addresses)

    def _table(self, destination: Destination) -> QueueTable:
        return destination_table(self._address(destination))

    def _delayed_table(self, destination: QueueAddress) -> DelayedTable:
        """Return where a message for a queue waits: in the table of the endpoint named, else in the destination's."""
        return delayed_table(self._delay_through or destination.satellite(DEFAULT_DELAYED_SUFFIX))

    def _to_create(self, destination: Destination, options: Options) -> Iterator[MessageTable]:
        """Give the tables that a message needs, if they are to be created: its queue, and where it waits if delayed."""
        if self._create_missing:
            address = self._address(destination)
            yield destination_table(address)
            if options.due is not None:
                yield self._delayed_table(address)

    def _sending(
        self, destination: Destination, outgoing: OutgoingMessage, options: Options
    ) -> Statement[None]:
        """Return the statement that sends a message, or stores it until it is due."""
        if options.due is None:
            return self._table(destination).send(outgoing, notify=self._notify)
        address = self._table(destination).address
        waiting = marked(outgoing, address)
        return self._delayed_table(address).store(waiting, options.due, notify=self._notify)

    def _cancelling(self, destination: Destination, message_id: str) -> Statement[int]:
        """Return the statement that cancels a message for a queue, where `_sending` stores it until it is due."""
        return self._delayed_table(self._address(destination)).cancel(message_id)

    def _bulk(self, destination: Destination, options: Options) -> Bulk:
        """Return how many messages are sent by COPY, or stored until they are due."""
        if options.due is None:
            table = self._table(destination)
            moment = table.expiry(options.time_to_be_received)
            return Bulk(moment, table.copy, table.copy_rows, table.notify())
        address = self._address(destination)
        delayed = self._delayed_table(address)
        return Bulk(
            delayed.due(options.due), delayed.copy, delayed.copy_rows, delayed.notify(), forward_to=address
        )

    def _message(self, message: object, type: str | None, options: Options) -> OutgoingMessage:
        content = serialize(message, types=(type,) if type else (), serializer=self._serializer)
        return self._compose(content, new_message_id(), options)

    def _event(
        self, event: object, type: str | tuple[str, ...] | None, options: Options
    ) -> tuple[OutgoingMessage, Statement[tuple[QueueAddress, ...]]]:
        """Return an event's message, and the question who subscribes to it."""
        refuse_command(event)
        content = serialize(
            event, types=(type,) if isinstance(type, str) else type or (), serializer=self._serializer
        )
        outgoing = self._compose(content, new_message_id(), options, intent="Publish")
        return outgoing, self._routing.subscribers(topics_of(content.types))

    def _publish(self, event: object, type: str | tuple[str, ...] | None, options: Options) -> Steps[str]:
        """Make an event's message, and return the steps that send a copy to each subscriber and return its id."""
        return self._send_copies(*self._event(event, type, options))

    def _send_copies(
        self, outgoing: OutgoingMessage, subscribers: Statement[tuple[QueueAddress, ...]]
    ) -> Steps[str]:
        addresses: tuple[QueueAddress, ...] = yield subscribers
        for address in addresses:
            yield self._table(address).send(outgoing, notify=self._notify)
        return outgoing.headers[Header.MESSAGE_ID] or ""

    def _compose(
        self, content: Content, message_id: str, options: Options, *, intent: str = "Send"
    ) -> OutgoingMessage:
        now = datetime.now(UTC)
        message = compose(
            content, intent=intent, message_id=message_id, now=now, origin=self._origin, options=options
        )
        return put_on(message, self._mutators)

    def _texts(
        self,
        messages: Iterable[object],
        type: str | None,
        options: Options,
        forward_to: QueueAddress | None,
    ) -> Iterator[tuple[str, bytes]]:
        """Give the header text and body of each message; those of one type share all headers but the id."""
        types = (type,) if type else ()
        shared: dict[tuple[str | None, ...], HeaderText] = Bounded()
        for message_id, message in zip(new_message_ids(), messages, strict=False):  # the ids never end
            content = serialize(message, types=types, serializer=self._serializer)
            if self._mutators:  # which may write other headers for each
                one = self._compose(content, message_id, options)
                whole = one if forward_to is None else marked(one, forward_to)
                yield encode_copied_headers(whole.headers), whole.body
                continue
            key = (content.content_type, *content.types)
            text = shared.get(key)
            if text is None:
                first = self._compose(content, HeaderText.PLACEHOLDER, options)
                text = shared[key] = HeaderText(first if forward_to is None else marked(first, forward_to))
            yield text.with_id(message_id), content.body


class Bulk(NamedTuple):
    """Many messages by COPY: what to ask the clock first, what to copy into, how rows are made, whom to wake."""

    moment: Statement[Any]
    copy: Query
    rows: Callable[[Iterable[tuple[str, bytes]], Any], Iterator[Row]]
    notify: Sequence[Statement[None]]
    forward_to: QueueAddress | None = None
    """The destination, if the messages are delayed."""


def identity_of(
    endpoint: str | None = None, machine: str | None = None, host_id: str | None = None
) -> Identity:
    """Return who sends, in place of what is not given the program and its machine; raises ConfigurationError."""
    host = _this_host()
    return Identity(
        endpoint or this_program(),
        machine or host.machine,
        host.id if host_id is None else host_digits(host_id),
    )


_this_host = cache(this_host)  # of this process; most clients live as long as a transaction


def _delayed_queue_of(endpoint: str, addresses: Addresses) -> QueueAddress:
    return addresses.for_endpoint(endpoint, qualifier=DEFAULT_DELAYED_SUFFIX)


class CountedMessages:
    """An iterable that knows how many it gave."""

    def __init__(self, items: Iterable[tuple[str, bytes]]) -> None:
        self._items = items
        self.count = 0

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        for item in self._items:
            self.count += 1
            yield item
