"""A handler's sends and appended events, what an event carries, and the rule by which equal sends collapse.

An event of a log carries its type and its data as text, of any object.

Invariants: within one dispatch there is at most one row per message id and destination, as NServiceBus promises
(docs/wire-format.md#dispatch): the last one wins and takes the place of the first; an event's data is text that
PostgreSQL can hold.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import msgspec

from rowbus.errors import MessageSerializationError
from rowbus.errors.strangers import text_of
from rowbus.messages.headers import Header
from rowbus.messages.message_types import declared_contract, refuse_class
from rowbus.running.telemetry.instruments import tracing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta

    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import OutgoingMessage


S = TypeVar("S", bound="AnySend")


class Send(NamedTuple):
    """One message for one queue."""

    destination: QueueAddress
    message: OutgoingMessage


class DelayedSend(NamedTuple):
    """One message for one queue, later: after a delay from the database's now, or at an aware instant.

    What is due already leaves at once.
    """

    destination: QueueAddress
    message: OutgoingMessage
    due: timedelta | datetime


class AppendedEvent(NamedTuple):
    """One event for one log."""

    log: str
    type: str | None = None
    data: str | None = None
    extra1: str | None = None
    extra2: str | None = None
    extra3: str | None = None
    extra4: str | None = None

    def json(self) -> object:
        """Return the data, read as JSON (None for NULL). Raises ValueError."""
        return None if self.data is None else json.loads(self.data)


AnySend = Send | DelayedSend
"""A message for a queue, now or later."""


class Multicast(NamedTuple):
    """One event for each queue whose endpoint subscribes to one of its types."""

    message: OutgoingMessage
    types: tuple[str, ...]

    def to(self, subscribers: Iterable[QueueAddress]) -> list[Send]:
        """Return the sends of its copies."""
        return [Send(address, self.message) for address in subscribers]


class Cancellation(NamedTuple):
    """A delayed message that is to be no more, by its id and its instant, in the table where it waits.

    It may have been sent by the same transaction: cancellations come after what is sent.
    """

    waits_in: QueueAddress
    message_id: str
    due: datetime


Leaving = Send | DelayedSend | AppendedEvent | Cancellation
"""The messages that leave when a message is completed."""


def deduplicate(sends: Sequence[S]) -> Sequence[S]:
    """Keep the last of those with equal message id and destination, at the place of the first.

    Whether they are delayed makes no difference, as in NServiceBus.
    """
    if len(sends) < 2:  # noqa: PLR2004 - one send has no duplicate; this is the common case
        return sends
    kept: dict[object, S] = {}
    for position, send in enumerate(sends):
        message_id = send.message.headers.get(Header.MESSAGE_ID)
        kept[(message_id, send.destination) if message_id else position] = send
    return tuple(kept.values())


def in_order_of_keys(sends: Sequence[Send]) -> Sequence[Send]:
    """Put those with a key last, in the order of queues and of their keys' digests; the others stay as they are.

    Who sends a key holds a lock until it commits: those who take several take them in one order, or they would wait for
    each other.
    """
    keyed = [send for send in sends if send.message.headers.get(Header.KEY)]
    if not keyed:
        return sends
    plain = [send for send in sends if not send.message.headers.get(Header.KEY)]
    return [*plain, *sorted(keyed, key=_place)]


def _place(send: Send) -> tuple[str, bytes]:
    key = send.message.headers[Header.KEY] or ""
    return send.destination.canonical, hashlib.sha256(key.encode()).digest()


def by_destination(sends: Iterable[Send]) -> dict[QueueAddress, list[OutgoingMessage]]:
    """Group by queue, keeping the order within each."""
    groups: dict[QueueAddress, list[OutgoingMessage]] = {}
    for send in sends:
        groups.setdefault(send.destination, []).append(send.message)
    return groups


def by_log(events: Iterable[AppendedEvent]) -> dict[str, list[AppendedEvent]]:
    """Group by log, keeping the order within each."""
    groups: dict[str, list[AppendedEvent]] = {}
    for event in events:
        groups.setdefault(event.log, []).append(event)
    return groups


class EventContent(NamedTuple):
    """The contents of an event of a log: a declared type's wire name (else None), and its data as text."""

    type: str | None
    data: str | None


def appended_event(log: str, data: object, type: str | None, *extras: str | None) -> AppendedEvent:
    """Return the event that appends any data to a log; raises MessageSerializationError for what cannot be stored.

    In a process that traces, the event carries the span of its appending in its last extra field, if that is free.
    """
    content = event_content(data)
    for text in (type, *extras):
        if text is not None:
            _event_text(_text_bytes, text)  # what is refused as data is refused here
    if (spans := tracing()) is not None and extras[-1:] == (None,):
        extras = (*extras[:-1], spans.append(log, type or content.type or ""))
    return AppendedEvent(log, content.type if type is None else type, content.data, *extras)


def event_content(data: object) -> EventContent:
    """Return an event's content for any object: text as it is, bytes as the UTF-8 they are, the rest as JSON.

    Raises MessageSerializationError for what has no JSON, and for text that PostgreSQL cannot hold.
    """
    if data is None:
        return EventContent(None, None)
    refuse_class(data)
    if isinstance(data, (str, bytes, bytearray)):
        return EventContent(None, _event_text(_text_bytes, data))
    kind: type = type(data)
    declared = declared_contract(kind)
    encode = _encode_model if hasattr(kind, "model_dump_json") else msgspec.json.encode
    return EventContent(None if declared is None else declared.name, _event_text(encode, data))


def _encode_model(model: _Model) -> bytes:
    return model.model_dump_json().encode()


class _Model(Protocol):
    """The half of a pydantic model that we use; pydantic itself is not imported."""

    def model_dump_json(self) -> str: ...


def _event_text(encode: Callable[[Any], bytes], data: object) -> str:
    try:
        return encode(data).decode()
    except Exception as error:
        kind = type(data)
        raise MessageSerializationError(
            f"A {kind.__name__} cannot be the data of an event: {text_of(error)}", type_name=kind.__name__
        ) from error


def _text_bytes(data: str | bytes | bytearray) -> bytes:
    """Return text as the bytes it is stored in; of bytes, only those that are text."""
    found = data.encode() if isinstance(data, str) else bytes(data)
    if b"\0" in found:
        raise ValueError("PostgreSQL's text cannot hold the character NUL")
    return found
