"""The verbs that send and publish, for clients, endpoints and contexts; their options, and the value that these become.

A message is made by a composer and leaves by a connection; a class says which. What is done in between is written once,
as coroutines; `def` callers run them to their end, on connections that block. So `send` is defined twice, and no more.

A verb names its options once, as a dictionary's type: `**options: Unpack[SendOptions]`. Type checkers read that; Python
is told by `@options_of(SendOptions)`, so that `help()` shows each option, and by `asked`, which refuses any other.

Invariants: no I/O but through the connection of the sender. An option means the same for every sender; one that cannot
do what it asks for refuses it, and says why.
"""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Required, TypedDict, TypeVar, cast, overload

from rowbus.database.statements import run_now
from rowbus.errors import ConfigurationError
from rowbus.messages.address import QueueAddress
from rowbus.messages.outgoing import NO_OPTIONS, OnConflict, Options, UniqueMessageId, uniqueness_of
from rowbus.running.handling import Awaiting, awaited
from rowbus.transport.uniqueness.sending import unique_send

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Unpack

    from rowbus.messages.dispatch import AnySend, Multicast
    from rowbus.transport.composition import Composer, Destination, Incoming
    from rowbus.transport.uniqueness.table import UniqueSend

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_DEFAULTS = NO_OPTIONS._asdict()
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


class ByRoute(Enum):
    """In place of a message: the one given in place of the destination goes where its route says."""

    ROUTED = "routed"


ROUTED: Final = ByRoute.ROUTED


class MessageOptions(TypedDict, total=False):
    """The options of every message that goes to one queue."""

    type: str | None
    headers: Mapping[str, str] | None
    time_to_be_received: timedelta | None
    delay: timedelta | None
    deliver_at: datetime | None
    key: str | None
    priority: str | None


class SendOptions(MessageOptions, total=False):
    """The options of a send."""

    reply_to: str | QueueAddress | None
    reply_to_this_instance: bool
    immediate: bool
    new_conversation: bool | str | None


class UniqueOptions(SendOptions, total=False):
    """The options of a send, and those that a unique one has beside."""

    unique: Required[str]
    while_waiting: bool
    within: timedelta
    on_conflict: OnConflict


class ReplyOptions(MessageOptions, total=False):
    """The options of a reply."""

    correlation_id: str | None


class PublishOptions(TypedDict, total=False):
    """The options of a publish."""

    type: str | tuple[str, ...] | None
    headers: Mapping[str, str] | None
    time_to_be_received: timedelta | None
    immediate: bool
    new_conversation: bool | str | None
    key: str | None
    priority: str | None


def asked(kind: Any, options: Mapping[str, object]) -> Options:  # noqa: ANN401 - a class of options
    """Return the options of a call as a value, `NO_OPTIONS` where none is other than by default.

    Raises TypeError for one of another kind, as Python does.
    """
    if not options:
        return NO_OPTIONS
    if not options.keys() <= kind.__optional_keys__:
        other = min(options.keys() - kind.__optional_keys__)
        raise TypeError(
            f"got an unexpected keyword argument {other!r}; the options are {', '.join(_notes(kind))}"
        )
    given = Options(**cast("dict[str, Any]", options))
    return NO_OPTIONS if given == NO_OPTIONS else given


def options_of(kind: Any) -> Callable[[F], F]:  # noqa: ANN401 - as above
    """Have the signature of a verb show each of its options in place of `**options`."""

    def shown(verb: F) -> F:
        signature = inspect.signature(verb)
        others = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        verb.__dict__["__signature__"] = signature.replace(parameters=[*others, *parameters_of(kind)])
        return verb

    return shown


def parameters_of(kind: Any) -> list[inspect.Parameter]:  # noqa: ANN401 - as above
    """Return options as parameters, with their defaults."""
    return [
        inspect.Parameter(name, _KEYWORD, default=_DEFAULTS[name], annotation=note)
        for name, note in _notes(kind).items()
    ]


def _notes(kind: Any) -> dict[str, str]:  # noqa: ANN401 - as above
    notes = {name: note.__forward_arg__ for name, note in inspect.get_annotations(kind).items()}
    return {
        name: note.removeprefix("Required[").removesuffix("]") if "Required" in note else note
        for name, note in notes.items()
    }


class Verbs(ABC):
    """Sends and publishes: makes a message, and has it leave."""

    @abstractmethod
    def _composing(self) -> tuple[Composer, Incoming]:
        """Return what makes the messages, and the headers of the message in hand, if there is one."""

    @abstractmethod
    async def _leave(self, send: AnySend, *, immediate: bool) -> None:
        """Have a message leave; `immediate`: now, and in a transaction of its own."""

    @abstractmethod
    async def _leave_once(self, unique: UniqueSend, *, immediate: bool) -> UniqueMessageId:
        """Have a unique message leave, as `_leave`, but at once: its sender is told what became of it."""

    @abstractmethod
    async def _leave_to_all(self, event: Multicast, *, immediate: bool) -> None:
        """Have an event leave to all that subscribe, as `_leave`."""

    def _routed(self, message: object, type: str | None) -> Destination:  # noqa: ARG002 - no message has one
        """Return where a message goes that is sent without a destination; raises ConfigurationError without a route."""
        raise ConfigurationError("There are no routes here: give a destination and a message.")

    async def _send(self, destination: object, message: object, options: Options) -> str:
        """Send a message as the options say and return its id; without one, the destination is the message."""
        if message is ROUTED:
            destination, message = self._routed(destination, cast("str | None", options.type)), destination
        to = cast("Destination", destination)
        uniqueness = None if options is NO_OPTIONS else uniqueness_of(options)
        composer, incoming = self._composing()
        send = composer.compose(to, message, options, incoming=incoming)
        if uniqueness is not None:
            return await self._leave_once(unique_send(send, uniqueness), immediate=options.immediate)
        await self._leave(send, immediate=options.immediate)
        return send.message.message_id

    async def _publish(self, event: object, options: Options) -> str:
        """Publish an event as the options say and return its id."""
        composer, incoming = self._composing()
        multicast = composer.event(event, options, incoming=incoming)
        await self._leave_to_all(multicast, immediate=options.immediate)
        return multicast.message.message_id


class AsyncSendVerbs(Verbs, Awaiting):
    """The verbs of callers that await: asynchronous clients, endpoints, and the contexts of `async def` handlers."""

    @overload
    async def send(
        self, destination: str | QueueAddress, message: object, **options: Unpack[SendOptions]
    ) -> str: ...
    @overload
    async def send(self, message: object, /, **options: Unpack[SendOptions]) -> str: ...
    @overload
    async def send(
        self, destination: str | QueueAddress, message: object, **options: Unpack[UniqueOptions]
    ) -> UniqueMessageId: ...
    @overload
    async def send(self, message: object, /, **options: Unpack[UniqueOptions]) -> UniqueMessageId: ...

    @awaited
    @options_of(UniqueOptions)
    async def send(
        self,
        destination: object,
        message: object = ROUTED,
        **options: Any,
    ) -> str:
        """Send a message to a queue, `send(destination, message)`, or to where its route says, and return its id.

        From a handler it leaves when that has succeeded, under the transaction mode, or with `immediate` now, in a
        transaction of its own, also if the handler fails later. From an endpoint outside of its handlers it leaves now.
        From a client it leaves in your transaction, never with `immediate`. Nothing waits for receivers.

        A message without a destination goes where `Endpoint.route` says; clients and handlers of events have no routes.
        `type` names dicts and bytes. With `delay`, counted from then by the database's clock, or `deliver_at`, an aware
        datetime, it waits in a table of delayed messages until it is due, never less: an endpoint's in its own, others'
        in the destination's or in that of the client's `delay_through`, whose endpoint must run then, or
        `rowbus delayed move` for it. Replies go where the client says, or to the queue that the endpoint's instances
        share, or for a handler of events nowhere; to `reply_to` instead, or with `reply_to_this_instance` to this
        instance's own. `new_conversation`: do not continue that of the message in hand, but begin one, with the id
        given if it is text.

        Raises InvalidAddressError, MessageSerializationError, InvalidHeaderError (also for a delay beside
        time_to_be_received), and ConfigurationError: without a route, for what this sender cannot do, and for an
        endpoint that is not started. What leaves now, or from a client or a handler of events, raises
        QueueNotFoundError, also when there is no table for its delay, and StorageError, after which your transaction is
        spoilt, as after any error of the database.
        """
        return await self._send(destination, message, asked(UniqueOptions, options))

    @awaited
    @options_of(PublishOptions)
    async def publish(self, event: object, **options: Unpack[PublishOptions]) -> str:
        """Publish an event and return its message id: each endpoint that subscribes to it, or to a parent, gets a copy.

        The copies leave as sends do, all or none. Who subscribes is asked of the database, by clients in your
        transaction, each time; an endpoint remembers it for the setting `subscription_cache`. An event without
        subscribers is no error. `type` names dicts and bytes; a tuple also gives their parents, most concrete first.
        Raises MessageSerializationError (for a command too), InvalidHeaderError, StorageError; QueueNotFoundError and
        ConfigurationError as `send` does.
        """
        return await self._publish(event, asked(PublishOptions, options))


class SendVerbs(Verbs):
    """The verbs of callers that block: clients, and the contexts of `def` handlers, which run in threads."""

    @overload
    def send(
        self, destination: str | QueueAddress, message: object, **options: Unpack[SendOptions]
    ) -> str: ...
    @overload
    def send(self, message: object, /, **options: Unpack[SendOptions]) -> str: ...
    @overload
    def send(
        self, destination: str | QueueAddress, message: object, **options: Unpack[UniqueOptions]
    ) -> UniqueMessageId: ...
    @overload
    def send(self, message: object, /, **options: Unpack[UniqueOptions]) -> UniqueMessageId: ...

    @options_of(UniqueOptions)
    def send(self, destination: object, message: object = ROUTED, **options: Any) -> str:
        """Send a message to a queue and return its id: from a client, in your transaction, which you commit.

        From a handler it leaves when that has succeeded. Otherwise, and for the options, see `AsyncSendVerbs.send`.
        """
        return run_now(self._send(destination, message, asked(UniqueOptions, options)))

    @options_of(PublishOptions)
    def publish(self, event: object, **options: Unpack[PublishOptions]) -> str:
        """Publish an event, from a client in your transaction, and return its id; see `AsyncSendVerbs.publish`."""
        return run_now(self._publish(event, asked(PublishOptions, options)))


class HandlerVerbs(Verbs):
    """The part of a context that differs by its handler: one in a thread has an event loop beside it."""

    _loop: asyncio.AbstractEventLoop | None = None  # of a handler in a thread

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Have a coroutine run on the event loop, which the connections belong to, and return its result."""
        if self._loop is None:
            return await work
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
