"""The outcome of a handler: what left it, and what became of it: values that tests look at.

Invariant: no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar, cast

from rowbus.messages.address import QueueAddress
from rowbus.messages.dispatch import AppendedEvent
from rowbus.messages.headers import Header, parse_enclosed_types
from rowbus.messages.message_types import deserializer

T = TypeVar("T")


class SentMessage(NamedTuple):
    """A message that left a handler: where to, its headers and body, and whether it was sent with `immediate`.

    `due` is the delay, or the instant, that it was sent with; None: at once.
    """

    destination: QueueAddress
    headers: Mapping[str, str | None]
    body: bytes
    time_to_be_received: timedelta | None
    immediate: bool
    due: timedelta | datetime | None = None

    @property
    def types(self) -> tuple[str, ...]:
        """Its wire names, most concrete first."""
        return parse_enclosed_types(self.headers.get(Header.ENCLOSED_MESSAGE_TYPES))

    def read(self, kind: type[T]) -> T:
        """Return the message as an object of this type, for comparing; raises MessageDeserializationError."""
        return cast("T", deserializer(kind, kind.__qualname__)(self.body))


class Outcome(NamedTuple):
    """The outcome of one attempt at a message.

    `sends` is what left, in order, replies included; after an `error` only what was sent with `immediate`, or in a
    transaction of a handler that takes long. `events` is what was appended to logs, in order, with the same exception.
    `progress` is what such a handler said of its progress: each fraction with its note, in order.
    """

    sends: tuple[SentMessage, ...]
    error: BaseException | None
    events: tuple[AppendedEvent, ...] = ()
    progress: tuple[tuple[float, str], ...] = ()

    @property
    def published(self) -> tuple[SentMessage, ...]:
        """Those of the sends that are events published, each once, however many subscribers there would be."""
        return tuple(sent for sent in self.sends if sent.headers.get(Header.MESSAGE_INTENT) == "Publish")

    @property
    def replies(self) -> tuple[SentMessage, ...]:
        """Those of the sends that are replies."""
        return tuple(sent for sent in self.sends if sent.headers.get(Header.MESSAGE_INTENT) == "Reply")
