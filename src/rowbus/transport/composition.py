"""Messages as they leave: made of objects, with the headers of their sender, as its mutators put them on the wire.

Clients, endpoints, handlers and whoever waits for answers make their messages here. How these leave is theirs:
see `send_verbs.py`.

Invariant: no I/O; a message differs by who sends it and by what is asked of it, never by the way it leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import ConfigurationError, InvalidHeaderError
from rowbus.messages.address import QueueAddress, address_of, named_address
from rowbus.messages.bodies.serializer import check_serializer
from rowbus.messages.dispatch import DelayedSend, Multicast, Send
from rowbus.messages.headers import Header, Identity, encode_copied_headers
from rowbus.messages.message import new_message_id, new_message_ids
from rowbus.messages.message_types import (
    DEFAULT,
    declared_contract,
    key_of,
    lifetime_of,
    refuse_misuse,
    serialize,
)
from rowbus.messages.mutators import Draft, KeepingMutator, Mutator, put_on
from rowbus.messages.outgoing import NO_OPTIONS, Content, HeaderText, compose
from rowbus.messages.return_code import ReturnCode, answer_of
from rowbus.running.bounded import Bounded
from rowbus.running.host import this_host, this_program
from rowbus.running.telemetry.instruments import instruments
from rowbus.settings import host_digits
from rowbus.transport.claims.table import keeping

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from rowbus.database.statements import Statement
    from rowbus.messages.address import Addresses
    from rowbus.messages.bodies.serializer import Serializer
    from rowbus.messages.dispatch import AnySend
    from rowbus.messages.message import OutgoingMessage
    from rowbus.messages.outgoing import Options, Origin

    MessageType = str | tuple[str, ...] | None
    Incoming = Mapping[str, str | None] | None

Destination = str | QueueAddress

BATCH_BYTES: Final = 16 * 1024 * 1024
"""Of messages that keep values, as much is in memory at a time."""

ANSWER: Final = Content(b"", None, ())
"""The content of a callback's answer: none, as it is in a header."""


class Composer:
    """Makes the messages of one sender."""

    def __init__(
        self,
        addresses: Addresses,
        origin: Origin,
        *,
        serializer: Serializer = DEFAULT,
        mutators: Sequence[Mutator] = (),
        can_delay: bool = True,
    ) -> None:
        """Make messages that come from an origin; `addresses` says what destinations given by name mean.

        `mutators` change what is made; they know where the sender's tables are. `can_delay`: something moves delayed
        messages.
        """
        self._can_delay = can_delay
        self.addresses = addresses
        self.origin = origin
        self.mutators = mutators
        self._drafting = [one for one in mutators if type(one).leaving is not Mutator.leaving]
        if serializer is not DEFAULT:
            check_serializer(serializer)
        self._serializer = serializer
        self.headers: Mapping[str, str] = {}
        """Headers of all that is made; those of a single message win."""

    def address(self, destination: Destination) -> QueueAddress:
        """Return the address a user means; raises InvalidAddressError."""
        if type(destination) is str:
            return named_address(destination, self.addresses)
        return address_of(destination, self.addresses)

    @property
    def instance_address(self) -> QueueAddress:
        """The sender's own queue of this instance; raises ConfigurationError when it has none."""
        raise ConfigurationError("Only an endpoint has queues of its instances' own: give reply_to.")

    def compose(
        self,
        destination: Destination,
        message: object,
        options: Options = NO_OPTIONS,
        *,
        intent: str = "Send",
        incoming: Incoming = None,
    ) -> AnySend:
        """Return the send of a message object, delayed if the options say so.

        `incoming` are the headers of the message in hand, if there is one. Raises InvalidAddressError,
        MessageSerializationError, for an event that is sent too, InvalidHeaderError, and ConfigurationError for a delay
        that no mover sees to.
        """
        address = self.address(destination)
        due = None if options is NO_OPTIONS else options.due
        if self._drafting:
            message, options = self._drafted(message, options, intent, incoming, address)
        if options.type is None:  # else it goes as what it is called there
            message = answer_of(message) if intent == "Reply" else message
            refuse_misuse(message, intent)
        if isinstance(message, ReturnCode):
            content = ANSWER
            options = options._replace(headers={**message.headers(), **(options.headers or {})})
        else:
            content = self._content(message, options.type)
            options = _keyed(options, message, content)
        outgoing = self._message(content, new_message_id(), options, intent, incoming, address.table)
        if due is None:
            return Send(address, outgoing)
        if not self._can_delay:
            raise ConfigurationError(
                f"A message for {address} is to be delayed, but this endpoint has delayed_delivery=None."
            )
        return DelayedSend(address, outgoing, due)

    def event(self, event: object, options: Options = NO_OPTIONS, *, incoming: Incoming = None) -> Multicast:
        """Return what is published of an event; raises as `compose`, and MessageSerializationError for a command."""
        if self._drafting:
            event, options = self._drafted(event, options, "Publish", incoming)
        refuse_misuse(event, "Publish")
        content = self._content(event, options.type)
        options = _keyed(options, event, content)
        outgoing = self._message(content, new_message_id(), options, "Publish", incoming)
        return Multicast(outgoing, content.types)

    def batches(
        self,
        destination: QueueAddress,
        messages: Iterable[object],
        options: Options,
        forward_to: QueueAddress | None = None,
    ) -> Iterator[Batch]:
        """Give messages as they are copied: all in one batch, streamed; with values of their own, in small ones.

        `forward_to` is their destination once more, if they are delayed.
        """
        if not any(isinstance(mutator, KeepingMutator) for mutator in self.mutators):
            yield Batch((), self._texts(destination, messages, options, forward_to))
            return
        kept: list[Statement[None]] = []
        texts: list[tuple[str, bytes]] = []
        size = 0
        for one in self._whole(destination, messages, options, forward_to):
            texts.append((encode_copied_headers(one.headers), one.body))
            kept += keeping(one, options.due)
            size += len(one.body) + sum(len(value.content) for value in one.kept)
            if size >= BATCH_BYTES:
                yield Batch(kept, texts)
                kept, texts, size = [], [], 0
        yield Batch(kept, texts)

    def _whole(
        self,
        destination: QueueAddress,
        messages: Iterable[object],
        options: Options,
        forward_to: QueueAddress | None,
    ) -> Iterator[OutgoingMessage]:
        """Give messages as mutators change them, which may write other headers for each."""
        for message_id, message in zip(new_message_ids(), messages, strict=False):  # the ids never end
            drafted, chosen = message, options
            if self._drafting:
                drafted, chosen = self._drafted(message, options, "Send", None, destination)
            content = self._sent(drafted, chosen.type)
            one = self._message(content, message_id, _keyed(chosen, drafted, content))
            yield one if forward_to is None else one.bound_for(forward_to)

    def _texts(
        self,
        destination: QueueAddress,
        messages: Iterable[object],
        options: Options,
        forward_to: QueueAddress | None,
    ) -> Iterator[tuple[str, bytes]]:
        """Give the header text and body of each message; those of one type share all headers but the id."""
        if self.mutators:
            for one in self._whole(destination, messages, options, forward_to):
                yield encode_copied_headers(one.headers), one.body
            return
        shared: dict[tuple[str | None, ...], HeaderText] = Bounded()
        for message_id, message in zip(new_message_ids(), messages, strict=False):  # the ids never end
            content = self._sent(message, options.type)
            keyed = _keyed(options, message, content)
            key = (keyed.key, content.content_type, *content.types)
            text = shared.get(key)
            if text is None:
                first = self._message(content, HeaderText.PLACEHOLDER, keyed)
                text = shared[key] = HeaderText(first if forward_to is None else first.bound_for(forward_to))
            yield text.with_id(message_id), content.body

    def lasting(self, messages: Iterable[object], options: Options) -> tuple[Iterable[object], Options]:
        """Return messages that are copied together with the time to be received that all of them were declared with.

        Raises ConfigurationError, when they are copied, for one with another.
        """
        rest = iter(messages)
        first = list(islice(rest, 1))
        if options.time_to_be_received is not None or not first:
            return chain(first, rest), options
        lifetime = _lifetime(first[0], options)
        return _of_one_lifetime(chain(first, rest), lifetime, options), options._replace(
            time_to_be_received=lifetime
        )

    def _sent(self, message: object, type: MessageType) -> Content:
        if type is None:
            refuse_misuse(message, "Send")
        return self._content(message, type)

    def _drafted(
        self,
        message: object,
        options: Options,
        intent: str,
        incoming: Incoming,
        destination: QueueAddress | None = None,
    ) -> tuple[object, Options]:
        """Return a message and its options as the mutators change them before it is written."""
        draft = Draft(intent, destination, message, options.type, dict(options.headers or {}), incoming)
        for mutator in self._drafting:
            mutator.leaving(draft)
        return draft.message, options._replace(type=draft.type, headers=draft.headers)

    def _content(self, message: object, type: MessageType) -> Content:
        types = type if isinstance(type, tuple) else (type,) if type else ()
        if type is not None and not isinstance(type, str):
            _refuse_no_text(types)
        return serialize(message, types=types, serializer=self._serializer)

    def _message(  # noqa: PLR0917 - each by its place: three callers, and the hot path of a send
        self,
        content: Content,
        message_id: str,
        options: Options,
        intent: str = "Send",
        incoming: Incoming = None,
        destination: str = "",
    ) -> OutgoingMessage:
        if (measured := instruments()) is not None:
            measured.sent.add(self._counted_under(content))
        if self.headers:
            options = options._replace(headers={**self.headers, **(options.headers or {})})
        if options.time_to_be_received is None and (lifetime := lifetime_of(content.types)) is not None:
            options = options._replace(time_to_be_received=lifetime)
        message = compose(
            content,
            intent=intent,
            message_id=message_id,
            now=datetime.now(UTC),
            origin=self.origin if options is NO_OPTIONS else self._origin(options),
            incoming=incoming,
            options=options,
            destination=destination,
        )
        return put_on(message, self.mutators) if self.mutators else message

    def _origin(self, options: Options) -> Origin:
        """Return where a message comes from; raises InvalidAddressError, ConfigurationError for where replies go."""
        if options.reply_to is not None:
            return self.origin._replace(reply_to=self.address(options.reply_to).canonical)
        if options.reply_to_this_instance:
            return self.origin._replace(reply_to=self.instance_address.canonical)
        return self.origin

    def _counted_under(self, content: Content) -> tuple[str, str]:
        """Return under which endpoint and type a message is counted."""
        identity = self.origin.identity
        return ("" if identity is None else identity.endpoint, next(iter(content.types), ""))


def _keyed(options: Options, message: object, content: Content) -> Options:
    """Return the options with the key that the message's type was declared with, unless the caller gave one."""
    if options.key is not None or (key := key_of(message, content.types)) is None:
        return options
    return options._replace(key=key)


def _refuse_no_text(types: tuple[object, ...]) -> None:
    if not all(isinstance(name, str) for name in types):
        raise InvalidHeaderError(
            f"type is {types!r}; give a message's name, such as type='Shop.PlaceOrder'.",
            header=Header.ENCLOSED_MESSAGE_TYPES,
            reason="no text",
        )


def _lifetime(message: object, options: Options) -> timedelta | None:
    if isinstance(options.type, str):
        return lifetime_of((options.type,))
    kind: type = type(message)
    contract = declared_contract(kind)
    return None if contract is None else lifetime_of(contract.types)


def _of_one_lifetime(
    messages: Iterable[object], lifetime: timedelta | None, options: Options
) -> Iterator[object]:
    for message in messages:
        if _lifetime(message, options) != lifetime:
            raise ConfigurationError(
                f"{type(message).__name__} was declared with another time_to_be_received than the first message: send "
                "them apart, or give send_many the time."
            )
        yield message


class Batch(NamedTuple):
    """Messages that are copied at a time: what to run first, and their header texts and bodies."""

    kept: Sequence[Statement[None]]
    texts: Iterable[tuple[str, bytes]]


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
