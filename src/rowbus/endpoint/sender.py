"""From message objects to what leaves: composed in an endpoint's name, addressed to a queue or to all subscribers.

Invariant: nothing here touches a queue; only who subscribes is asked of the database.
"""

from __future__ import annotations

from copy import copy
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConfigurationError
from rowbus.messages.addresses import address_of
from rowbus.messages.dispatch import DelayedSend, Send
from rowbus.messages.headers import Header
from rowbus.messages.message_types import DEFAULT, refuse_command, serialize
from rowbus.messages.mutators import put_on
from rowbus.messages.outgoing import Content, compose
from rowbus.messages.return_code import ReturnCode, answer_of
from rowbus.messages.uuids import new_message_id
from rowbus.running.telemetry.instruments import instruments
from rowbus.transport.delayed.table import delayed_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from rowbus.database.statements import Statement
    from rowbus.endpoint.routes import Routes
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses
    from rowbus.messages.bodies.serializer import Serializer
    from rowbus.messages.dispatch import AnySend
    from rowbus.messages.message import OutgoingMessage
    from rowbus.messages.mutators import Mutator
    from rowbus.messages.outgoing import Options, Origin
    from rowbus.transport.delayed.table import DelayedTable
    from rowbus.transport.pubsub.subscribers import Ask

    FindSubscribers = Callable[[tuple[str, ...], Ask | None], Awaitable[Sequence[QueueAddress]]]


ANSWER: Final = Content(b"", None, ())
"""What the answer of a callback carries: nothing; it is in a header."""


class Sender:
    """Turns message objects into sends, for one origin."""

    def __init__(  # noqa: PLR0913 - parts, each by keyword
        self,
        origin: Origin,
        addresses: Addresses,
        subscribers: FindSubscribers,
        *,
        instance: QueueAddress | None = None,
        can_delay: bool = True,
        serializer: Serializer = DEFAULT,
        local: QueueAddress,
        routes: Routes,
        delayed: QueueAddress | None = None,
        mutators: Sequence[Mutator] = (),
    ) -> None:
        """Say whom messages come from, what destinations given by name mean, and who gets events.

        `local` is the queue that the sender's instances share, `instance` this one's own beside it, if it has one;
        `delayed` is the table where its messages wait, if it has one. `mutators` change what is made.
        """
        self.local = local
        self.routes = routes
        self.origin = origin
        self._instance = instance
        self._addresses = addresses
        self._subscribers = subscribers
        self._can_delay = can_delay
        self._delayed = delayed
        self._serializer = serializer
        self._mutators = mutators
        measured = instruments()
        self._sent = None if measured is None else measured.sent.add
        self.headers: Mapping[str, str] = {}
        """Headers of all that is made; those of a single send win."""

    def with_headers(self, headers: Mapping[str, str]) -> Sender:
        """Return the same sender, which adds these headers to all that it makes."""
        sender = copy(self)
        sender.headers = headers
        return sender

    def address(self, destination: str | QueueAddress) -> QueueAddress:
        """Return the address a user means; raises InvalidAddressError."""
        return address_of(destination, self._addresses)

    def canonical(self, address: str | QueueAddress | None) -> str | None:
        """Return an address as it travels in headers, None for none."""
        return None if address is None else self.address(address).canonical

    @property
    def instance_address(self) -> QueueAddress:
        """The sender's own queue; raises ConfigurationError when it has none."""
        if self._instance is None:
            raise ConfigurationError(
                "This endpoint has no discriminator, so no queue of this instance's own."
            )
        return self._instance

    def cancelling(self, message_id: str) -> Statement[int]:
        """Return the statement that cancels a message that the sender delayed, and says how many rows there were.

        Raises ConfigurationError for an endpoint without a table of its own.
        """
        if self.delayed_table is None:
            raise ConfigurationError(
                "Only messages in an endpoint's own table of delayed messages can be cancelled; this endpoint delays "
                "them in a store, or not at all."
            )
        return self.delayed_table.cancel(message_id)

    @property
    def delayed_table(self) -> DelayedTable | None:
        """The table in which the sender's delayed messages wait; None: they wait in a store, or not at all."""
        return None if self._delayed is None else delayed_table(self._delayed)

    def make(
        self,
        destination: str | QueueAddress,
        message: object,
        *,
        intent: str = "Send",
        type: str | tuple[str, ...] | None = None,
        options: Options,
        incoming: Mapping[str, str | None] | None = None,
    ) -> AnySend:
        """Return the send of a message object, delayed if the options say so.

        Raises MessageSerializationError, InvalidHeaderError, and ConfigurationError for a delay that no mover sees to.
        """
        address, due = self.address(destination), options.due
        if intent == "Reply" and type is None:
            message = answer_of(message)
        if isinstance(message, ReturnCode):
            options = options._replace(headers={**message.headers(), **(options.headers or {})})
        content = self._content(message, type)
        outgoing = self._compose(content, intent, options, incoming, address.table)
        if due is None:
            return Send(address, outgoing)
        if not self._can_delay:
            raise ConfigurationError(
                f"A message for {address} is to be delayed, but this endpoint has delayed_delivery=None."
            )
        return DelayedSend(address, outgoing, due)

    async def publish(
        self,
        event: object,
        *,
        type: str | tuple[str, ...] | None = None,
        options: Options,
        incoming: Mapping[str, str | None] | None = None,
        ask: Ask | None = None,
    ) -> tuple[str, list[Send]]:
        """Return an event's message id and the sends of its copies, one for each subscriber's queue; there may be none.

        Who subscribes is asked through `ask`, in the transaction of the message in hand, if there is one.

        Raises MessageSerializationError (for a command too), InvalidHeaderError, StorageError.
        """
        refuse_command(event)
        content = self._content(event, type)
        outgoing = self._compose(content, "Publish", options, incoming)
        addresses = await self._subscribers(content.types, ask)
        return message_id_of(outgoing), [Send(address, outgoing) for address in addresses]

    def _content(self, message: object, type: str | tuple[str, ...] | None) -> Content:
        if isinstance(message, ReturnCode):
            return ANSWER
        types = (type,) if isinstance(type, str) else type or ()
        return serialize(message, types=types, serializer=self._serializer)

    def _compose(
        self,
        content: Content,
        intent: str,
        options: Options,
        incoming: Mapping[str, str | None] | None,
        destination: str = "",
    ) -> OutgoingMessage:
        if self._sent is not None:
            self._sent(self._sender_of(content))
        if self.headers:
            options = options._replace(headers={**self.headers, **(options.headers or {})})
        message = compose(
            content,
            intent=intent,
            message_id=new_message_id(),
            now=datetime.now(UTC),
            origin=self.origin,
            incoming=incoming,
            options=options,
            destination=destination,
        )
        return put_on(message, self._mutators) if self._mutators else message

    def _sender_of(self, content: Content) -> tuple[str, str]:
        """Return under which endpoint and type a message is counted."""
        identity = self.origin.identity
        return ("" if identity is None else identity.endpoint, next(iter(content.types), ""))


def message_id_of(message: OutgoingMessage) -> str:
    """Return the id a message has in its headers."""
    return message.headers[Header.MESSAGE_ID] or ""
