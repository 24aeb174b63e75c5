"""`send` and `publish` as every context has them: contexts of messages and of events, for `async def` and for `def`.

Invariant: no I/O; who inherits these says how a message is made and when it leaves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Final, TypedDict, cast, overload

from rowbus.errors import ConfigurationError
from rowbus.messages.outgoing import Options
from rowbus.running.awaited_calls import Awaiting, awaited

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta
    from typing import Unpack

    from rowbus.messages.address import QueueAddress


class Routed(Enum):
    """In place of a message: the one given in place of the destination goes where its route says."""

    ROUTED = "routed"


ROUTED: Final = Routed.ROUTED


class LocalOptions(TypedDict, total=False):
    """What a handler may ask of a message for its own endpoint."""

    type: str | None
    headers: Mapping[str, str] | None
    time_to_be_received: timedelta | None
    delay: timedelta | None
    deliver_at: datetime | None
    immediate: bool
    new_conversation: bool | str


class SendOptions(LocalOptions, total=False):
    """What a handler may ask of one send."""

    reply_to: str | QueueAddress | None


class OutsideOptions(TypedDict, total=False):
    """What may be asked of a send from outside a handler."""

    type: str | None
    headers: Mapping[str, str] | None
    time_to_be_received: timedelta | None
    delay: timedelta | None
    deliver_at: datetime | None
    reply_to: str | QueueAddress | None
    reply_to_this_instance: bool
    new_conversation: str | None


class Routing:
    """Where messages go that are sent without a destination; nowhere, but for those who say."""

    def _routed(self, message: object, type: str | None) -> str | QueueAddress:  # noqa: ARG002 - no message has one
        """Return where a message goes; raises ConfigurationError for one without a route."""
        raise ConfigurationError("There are no routes here: give a destination and a message.")

    def _addressed(
        self, destination: object, message: object, type: str | None
    ) -> tuple[str | QueueAddress, object]:
        """Return where to, and the message, of which the first may have been left out."""
        if message is ROUTED:
            return self._routed(destination, type), destination
        return cast("str | QueueAddress", destination), message


class AsyncSendVerbs(Routing, Awaiting, ABC):
    """The verbs of a context for `async def` handlers."""

    @overload
    async def send(
        self, destination: str | QueueAddress, message: object, **options: Unpack[SendOptions]
    ) -> str: ...
    @overload
    async def send(self, message: object, /, **options: Unpack[SendOptions]) -> str: ...

    @awaited
    async def send(  # noqa: PLR0913 - options, each by keyword
        self,
        destination: object,
        message: object = ROUTED,
        *,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
        time_to_be_received: timedelta | None = None,
        delay: timedelta | None = None,
        deliver_at: datetime | None = None,
        reply_to: str | QueueAddress | None = None,
        immediate: bool = False,
        new_conversation: bool | str = False,
    ) -> str:
        """Send a message to a queue, `send(destination, message)`, or to where its route says, and return its id.

        A message without a destination goes where `Endpoint.route` says; without a route, ConfigurationError.
        It leaves when the handler has succeeded, under the transaction mode; with `immediate` it leaves now, in a
        transaction of its own, also if the handler fails later. With `delay`, counted from then by the database's
        clock, or `deliver_at`, an aware datetime, it waits in a table of delayed messages until it is due, never less:
        in a handler of messages in the endpoint's own table, in a handler of a log's events in the destination's.
        Replies go to the queue that the endpoint's instances share, or to `reply_to`, which may be `instance_address`;
        in a handler of events there are none without `reply_to`. `type` names dicts and bytes. `new_conversation`: do
        not continue that of the message in hand, but begin one, with the id given if it is text. Raises
        InvalidAddressError, MessageSerializationError,
        InvalidHeaderError (also for a delay beside time_to_be_received), ConfigurationError; immediate also
        QueueNotFoundError, as do handlers of events.
        """
        options = Options(
            headers,
            time_to_be_received,
            new_conversation,
            reply_to,
            delay,
            deliver_at,
            type=type,
            immediate=immediate,
        )
        to, sent = self._addressed(destination, message, type)
        return await self._send(to, sent, options)

    @awaited
    async def publish(
        self,
        event: object,
        *,
        type: str | tuple[str, ...] | None = None,
        headers: Mapping[str, str] | None = None,
        time_to_be_received: timedelta | None = None,
        immediate: bool = False,
        new_conversation: bool | str = False,
    ) -> str:
        """Publish an event and return its message id: each endpoint that subscribes to it, or to a parent, gets a copy.

        The copies leave as sends do, all or none. Who subscribes is asked of the database, which a handler of messages
        remembers for the setting `subscription_cache`; an event without subscribers is no error. `type` names dicts and
        bytes; a tuple also gives their parents, most concrete first. Raises MessageSerializationError (for a command
        too), InvalidHeaderError, StorageError; immediate also QueueNotFoundError, as do handlers of events.
        """
        options = Options(headers, time_to_be_received, new_conversation, type=type, immediate=immediate)
        return await self._publish(event, options)

    @abstractmethod
    async def _send(self, destination: str | QueueAddress, message: object, options: Options) -> str:
        """Send a message as the options say and return its id."""

    @abstractmethod
    async def _publish(self, event: object, options: Options) -> str:
        """Publish an event as the options say and return its id."""


class SendVerbs(Routing, ABC):
    """The verbs of a context for `def` handlers, which run in threads."""

    @overload
    def send(
        self, destination: str | QueueAddress, message: object, **options: Unpack[SendOptions]
    ) -> str: ...
    @overload
    def send(self, message: object, /, **options: Unpack[SendOptions]) -> str: ...

    def send(  # noqa: PLR0913 - as above
        self,
        destination: object,
        message: object = ROUTED,
        *,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
        time_to_be_received: timedelta | None = None,
        delay: timedelta | None = None,
        deliver_at: datetime | None = None,
        reply_to: str | QueueAddress | None = None,
        immediate: bool = False,
        new_conversation: bool | str = False,
    ) -> str:
        """Send a message to a queue and return its message id; see `Context.send`."""
        options = Options(
            headers,
            time_to_be_received,
            new_conversation,
            reply_to,
            delay,
            deliver_at,
            type=type,
            immediate=immediate,
        )
        to, sent = self._addressed(destination, message, type)
        return self._send(to, sent, options)

    def publish(
        self,
        event: object,
        *,
        type: str | tuple[str, ...] | None = None,
        headers: Mapping[str, str] | None = None,
        time_to_be_received: timedelta | None = None,
        immediate: bool = False,
        new_conversation: bool | str = False,
    ) -> str:
        """Publish an event and return its message id; see `AsyncSendVerbs.publish`."""
        options = Options(headers, time_to_be_received, new_conversation, type=type, immediate=immediate)
        return self._publish(event, options)

    @abstractmethod
    def _send(self, destination: str | QueueAddress, message: object, options: Options) -> str:
        """Send a message as the options say and return its id."""

    @abstractmethod
    def _publish(self, event: object, options: Options) -> str:
        """Publish an event as the options say and return its id."""
