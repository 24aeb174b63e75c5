"""The work that both clients share: make messages, find the tables they go to, now or later.

Invariant: no I/O; what is made here is run by a client, in its user's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.messages.address import DEFAULT_DELAYED_SUFFIX, QueueAddress
from rowbus.messages.addresses import address_of
from rowbus.messages.headers import encode_copied_headers
from rowbus.messages.identity import Identity
from rowbus.messages.message_types import DEFAULT, refuse_command, serialize
from rowbus.messages.mutators import KeepingMutator, bound_mutators, checked_mutators, put_on
from rowbus.messages.outgoing import Content, HeaderText, Options, Origin, compose
from rowbus.messages.uuids import new_message_id, new_message_ids
from rowbus.running.bounded import Bounded
from rowbus.running.host import this_host, this_program
from rowbus.running.telemetry.instruments import instruments
from rowbus.settings import host_digits
from rowbus.transport.claims.claim_check import ClaimCheck
from rowbus.transport.claims.table import claimed_values, keeping
from rowbus.transport.delayed.policy import marked
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.pubsub.publication import Publication
from rowbus.transport.pubsub.subscription import topics_of
from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.table import destination_table

if TYPE_CHECKING:
    from rowbus.database.statements import Query, Row, Statement
    from rowbus.messages.addresses import Addresses
    from rowbus.messages.bodies.serializer import Serializer
    from rowbus.messages.message import OutgoingMessage
    from rowbus.messages.mutators import Mutator
    from rowbus.transport.delayed.table import DelayedTable
    from rowbus.transport.pubsub.table import SubscriptionRouting
    from rowbus.transport.queues.table import MessageTable, QueueTable, RecordTable

Destination = str | QueueAddress

BATCH_BYTES: Final = 16 * 1024 * 1024
"""Of messages that keep values, as much is in memory at a time."""


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
        self._mutators = bound_mutators(checked_mutators(mutators), addresses)
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

    def _to_create(self, destination: Destination, options: Options) -> Iterator[MessageTable | RecordTable]:
        """Give the tables that a message needs, if they are to be created: its queue, and where it waits if delayed.

        And those in which its values are.
        """
        if self._create_missing:
            address = self._address(destination)
            yield destination_table(address)
            if options.due is not None:
                yield self._delayed_table(address)
            for mutator in self._mutators:
                if isinstance(mutator, ClaimCheck) and mutator.address is not None:
                    yield claimed_values(mutator.address)

    def _leaving(
        self, destination: Destination, outgoing: OutgoingMessage, options: Options
    ) -> list[Statement[None]]:
        """Return the statements that send a message, as `_sending`, with the values that it keeps in tables."""
        kept = keeping(outgoing, options.due) if outgoing.kept else []
        return [*kept, self._sending(destination, outgoing, options)]

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

    def _message(
        self, message: object, type: str | None, options: Options, destination: Destination = ""
    ) -> OutgoingMessage:
        content = serialize(message, types=(type,) if type else (), serializer=self._serializer)
        return self._compose(content, new_message_id(), options, destination=destination)

    def _event(self, event: object, type: str | tuple[str, ...] | None, options: Options) -> Publication:
        """Return an event's message, with the question who subscribes to it."""
        refuse_command(event)
        content = serialize(
            event, types=(type,) if isinstance(type, str) else type or (), serializer=self._serializer
        )
        outgoing = self._compose(content, new_message_id(), options, intent="Publish")
        subscribers = self._routing.subscribers(topics_of(content.types))
        return Publication(outgoing, keeping(outgoing), subscribers, notify=self._notify)

    def _compose(
        self,
        content: Content,
        message_id: str,
        options: Options,
        *,
        intent: str = "Send",
        destination: Destination = "",
    ) -> OutgoingMessage:
        if (measured := instruments()) is not None:
            sender = self._origin.identity
            measured.sent.add(("" if sender is None else sender.endpoint, next(iter(content.types), "")))
        message = compose(
            content,
            intent=intent,
            message_id=message_id,
            now=datetime.now(UTC),
            origin=self._origin,
            options=options,
            destination=destination.table if isinstance(destination, QueueAddress) else destination,
        )
        return put_on(message, self._mutators)

    def _batches(
        self, messages: Iterable[object], type: str | None, options: Options, bulk: Bulk
    ) -> Iterator[Batch]:
        """Give messages as they are copied: all in one batch, streamed; with values of their own, in small ones."""
        if not any(isinstance(mutator, KeepingMutator) for mutator in self._mutators):
            yield Batch((), self._texts(messages, type, options, bulk.forward_to))
            return
        kept: list[Statement[None]] = []
        texts: list[tuple[str, bytes]] = []
        size = 0
        for one in self._whole(messages, type, options, bulk.forward_to):
            texts.append((encode_copied_headers(one.headers), one.body))
            kept += keeping(one, options.due)
            size += len(one.body) + sum(len(value.content) for value in one.kept)
            if size >= BATCH_BYTES:
                yield Batch(kept, texts)
                kept, texts, size = [], [], 0
        yield Batch(kept, texts)

    def _whole(
        self, messages: Iterable[object], type: str | None, options: Options, forward_to: QueueAddress | None
    ) -> Iterator[OutgoingMessage]:
        """Give messages as mutators change them, which may write other headers for each."""
        types = (type,) if type else ()
        for message_id, message in zip(new_message_ids(), messages, strict=False):  # the ids never end
            one = self._compose(
                serialize(message, types=types, serializer=self._serializer), message_id, options
            )
            yield one if forward_to is None else marked(one, forward_to)

    def _texts(
        self,
        messages: Iterable[object],
        type: str | None,
        options: Options,
        forward_to: QueueAddress | None,
    ) -> Iterator[tuple[str, bytes]]:
        """Give the header text and body of each message; those of one type share all headers but the id."""
        if self._mutators:
            for one in self._whole(messages, type, options, forward_to):
                yield encode_copied_headers(one.headers), one.body
            return
        types = (type,) if type else ()
        shared: dict[tuple[str | None, ...], HeaderText] = Bounded()
        for message_id, message in zip(new_message_ids(), messages, strict=False):  # the ids never end
            content = serialize(message, types=types, serializer=self._serializer)
            key = (content.content_type, *content.types)
            text = shared.get(key)
            if text is None:
                first = self._compose(content, HeaderText.PLACEHOLDER, options)
                text = shared[key] = HeaderText(first if forward_to is None else marked(first, forward_to))
            yield text.with_id(message_id), content.body


class Batch(NamedTuple):
    """Messages that are copied at a time: what to run first, and their header texts and bodies."""

    kept: Sequence[Statement[None]]
    texts: Iterable[tuple[str, bytes]]


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
    """Knows how many messages it gave."""

    def __init__(self) -> None:
        self.count = 0

    def of(self, items: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
        """Give these, counted."""
        for item in items:
            self.count += 1
            yield item
