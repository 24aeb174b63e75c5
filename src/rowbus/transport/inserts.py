"""The statements by which messages leave on a session of their sender's: they insert into queues, now or later.

Invariant: no I/O; what is made here is run by its sender, in the transaction that the sender chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from rowbus.errors import ConfigurationError
from rowbus.messages.address import DEFAULT_DELAYED_SUFFIX
from rowbus.messages.dispatch import Send
from rowbus.transport.claims.claim_check import ClaimCheck
from rowbus.transport.claims.table import claimed_values, keeping
from rowbus.transport.delayed.policy import marked
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.pubsub.publication import Publication
from rowbus.transport.pubsub.subscription import topics_of
from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.table import destination_table

if TYPE_CHECKING:
    from datetime import timedelta

    from rowbus.database.statements import Query, Row, Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.dispatch import AnySend, Multicast
    from rowbus.messages.mutators import Mutator
    from rowbus.messages.outgoing import Due
    from rowbus.transport.delayed.table import DelayedTable
    from rowbus.transport.pubsub.table import SubscriptionRouting
    from rowbus.transport.queues.table import MessageTable, RecordTable
    from rowbus.transport.uniqueness.table import UniqueSend


class Inserts:
    """Puts messages into the queues of one database, and into the tables where delayed ones wait."""

    def __init__(
        self,
        subscriptions: QueueAddress,
        *,
        delay_through: QueueAddress | None = None,
        notify: bool = True,
    ) -> None:
        """Look for subscribers in a table; have delayed messages wait in another, or in their destination's own."""
        self.subscriptions = subscriptions
        self._delay_through = delay_through
        self.notify = notify

    @cached_property
    def _routing(self) -> SubscriptionRouting:
        """The table of subscriptions; most clients are made for a transaction, and never ask."""
        return subscription_routing(self.subscriptions)

    def of(self, send: AnySend) -> list[Statement[None]]:
        """Return the statements that send a message, or store it until it is due, with the values that it keeps."""
        destination, message = send[:2]
        if isinstance(send, Send):
            sending = destination_table(destination).send(message, notify=self.notify)
            return [*keeping(message), sending] if message.kept else [sending]
        waiting = marked(message, destination_table(destination).address)
        storing = self._delayed_table(destination).store(waiting, send.due, notify=self.notify)
        return [*keeping(message, send.due), storing]

    def publication(self, event: Multicast) -> Publication:
        """Return an event as it goes to its subscribers, with the question who they are."""
        subscribers = self._routing.subscribers(topics_of(event.types))
        return Publication(
            event.message, keeping(event.message), self.subscriptions, subscribers, notify=self.notify
        )

    def cancelling(self, destination: QueueAddress, message_id: str) -> Statement[int]:
        """Return the statement that cancels a message for a queue where it waits until it is due."""
        return self._delayed_table(destination).cancel(message_id)

    def bulk(self, destination: QueueAddress, due: Due, time_to_be_received: timedelta | None) -> Bulk:
        """Return how many messages are sent by COPY, or stored until they are due."""
        if due is None:
            table = destination_table(destination)
            moment = table.expiry(time_to_be_received)
            return Bulk(moment, table.copy, table.copy_rows, table.notify() if self.notify else ())
        delayed = self._delayed_table(destination)
        return Bulk(
            delayed.due(due),
            delayed.copy,
            delayed.copy_rows,
            delayed.notify() if self.notify else (),
            forward_to=destination,
        )

    def tables(
        self, destination: QueueAddress, due: Due, mutators: Iterable[Mutator]
    ) -> Iterator[MessageTable | RecordTable]:
        """Give the tables that a message needs: its queue, where it waits if delayed, and where its values are."""
        yield destination_table(destination)
        if due is not None:
            yield self._delayed_table(destination)
        for mutator in mutators:
            if isinstance(mutator, ClaimCheck) and mutator.address is not None:
                yield claimed_values(mutator.address)

    def refuse_elsewhere(self, unique: UniqueSend) -> None:
        """Raise ConfigurationError for a delayed unique message that would wait apart from others of its value."""
        if self._delay_through is not None and not isinstance(unique.send, Send):
            raise ConfigurationError(
                f"A delayed message for {unique.send.destination} is unique where its queue's other delayed messages "
                "wait: send it by a client without delay_through."
            )

    def _delayed_table(self, destination: QueueAddress) -> DelayedTable:
        """Return where a message for a queue waits: in the table of the endpoint named, else in the destination's."""
        return delayed_table(self._delay_through or destination.satellite(DEFAULT_DELAYED_SUFFIX))


class Bulk(NamedTuple):
    """Many messages by COPY: what to ask the clock first, what to copy into, how rows are made, whom to wake."""

    moment: Statement[Any]
    copy: Query
    rows: Callable[[Iterable[tuple[str, bytes]], Any], Iterator[Row]]
    notify: Sequence[Statement[None]]
    forward_to: QueueAddress | None = None
    """The destination, if the messages are delayed."""


class CountedMessages:
    """Knows how many messages it gave."""

    def __init__(self) -> None:
        self.count = 0

    def of(self, items: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
        """Give these, counted."""
        for item in items:
            self.count += 1
            yield item
