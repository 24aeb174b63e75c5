"""Messages of an endpoint from outside its handlers: sent, published, cancelled, routed, and subscribed to.

Sends of many tasks to one queue: what comes while one is on its way waits, and leaves together after it.

One round trip and one commit carry them all. While nothing is on its way to its queue, a send leaves at once, alone.

Invariants: what a verb does is committed when it returns; sends of many tasks to one queue may share a transaction. A
caller returns when its message is committed, and is told why when it is not; what may have been committed is never sent
again; queues do not wait for each other.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Final

from rowbus.messages.address import address_of
from rowbus.messages.dispatch import AnySend, Send
from rowbus.messages.message_types import event_name
from rowbus.running.together import Together
from rowbus.transport.long_work.table import work_status
from rowbus.transport.send_verbs import AsyncSendVerbs, SendOptions, asked, options_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import ModuleType
    from typing import Unpack

    from rowbus.endpoint.running import RunningEndpoint
    from rowbus.endpoint.sender import Routes
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.messages.dispatch import Multicast
    from rowbus.messages.outgoing import UniqueMessageId
    from rowbus.transport.composition import Composer, Destination
    from rowbus.transport.long_work.table import WorkStatus
    from rowbus.transport.uniqueness.table import UniqueSend

    Dispatch = Callable[[Sequence[AnySend]], Awaitable[None]]


MOST: Final = 100
"""Messages that leave together."""

MOST_BYTES: Final = 1024 * 1024
"""Of their bodies; a larger one leaves alone."""


class Gathering:
    """The sends of one endpoint, on its event loop."""

    def __init__(self, dispatch: Dispatch) -> None:
        """Have messages leave so, in a transaction of their own each time. No I/O."""
        self._dispatch = dispatch
        self._behind: dict[QueueAddress, Together[Send, None]] = {}  # queues that something is on its way to

    async def leave(self, send: AnySend) -> None:
        """Send a message, with those that wait for the same queue; raises what its own sending raises."""
        if not isinstance(send, Send):
            await self._dispatch([send])
            return
        behind = self._behind.get(send.destination)
        if behind is not None:
            await behind.join(send)
            return
        self._behind[send.destination] = behind = Together(self._dispatch_all, fitting)
        try:
            await self._dispatch([send])
        finally:
            self._go_on(send.destination, behind)

    async def _dispatch_all(self, sends: Sequence[Send]) -> Sequence[None]:
        await self._dispatch(sends)
        return [None] * len(sends)

    def _go_on(self, destination: QueueAddress, behind: Together[Send, None]) -> None:
        if behind.waiting:
            behind.go_on(partial(self._go_on, destination, behind))
        else:
            del self._behind[destination]


def fitting(sends: Sequence[Send]) -> int:
    """Say how many of the sends can leave together, from the first on: few, not large, and no id twice. Pure."""
    size, ids = 0, set[str]()
    for count, (_destination, message) in enumerate(sends):
        size += len(message.body)
        is_twice = bool(message.message_id) and message.message_id in ids
        if count and (count == MOST or size > MOST_BYTES or is_twice):
            return count
        ids.add(message.message_id)
    return len(sends)


class Sending(AsyncSendVerbs):
    """The sending, publishing and subscribing side of an endpoint."""

    address: QueueAddress
    addresses: Addresses
    _routes: Routes

    @abstractmethod
    def _started(self) -> RunningEndpoint:
        """Return what runs; raises ConfigurationError when nothing does."""

    def route(self, *messages: type | str, to: str | QueueAddress) -> None:
        """Have these messages, classes or wire names, go to a queue when they are sent without a destination.

        Raises ConfigurationError for an event and for a message with another route, InvalidAddressError.
        """
        address_of(to, self.addresses)
        for message in messages:
            self._routes.add(message, to)

    def route_module(self, module: str | ModuleType, *, to: str | QueueAddress) -> None:
        """Have the messages whose classes are in a module, or in one within it, go to a queue, as `route` does.

        The route of a message itself wins, then that of the innermost module.

        Raises ConfigurationError for a module with another route, InvalidAddressError.
        """
        address_of(to, self.addresses)
        self._routes.add_module(module if isinstance(module, str) else module.__name__, to)

    @options_of(SendOptions)
    async def send_local(self, message: object, **options: Unpack[SendOptions]) -> str:
        """Send to the endpoint's own queue from outside a handler; otherwise as `send`."""
        return await self._send(self.address, message, asked(SendOptions, options))

    async def cancel(self, message_id: str) -> bool:
        """Cancel a message that this endpoint delayed, from outside a handler; say whether it still waited.

        In a transaction of its own; otherwise as `Context.cancel`. Raises ConfigurationError also when the endpoint is
        not started.
        """
        return await self._started().cancel(message_id)

    async def status(self, destination: Destination, message_id: str) -> WorkStatus | None:
        """Return the progress of a message whose handler takes long, in this endpoint or in another.

        In a transaction of its own; otherwise as `Client.status`. Raises ConfigurationError also when the endpoint is
        not started.
        """
        running = self._started()
        return await running.dispatcher.ask(work_status(running.sender.address(destination), message_id))

    async def subscribe(self, *events: type | str) -> None:
        """Have a copy of each of these events come to the endpoint's queue, once for all its instances.

        Events are given by class or by wire name; exactly these are subscribed to, and what has them as a parent comes
        too. Publishers may take as long as their `subscription_cache` to notice. Raises ConfigurationError when the
        endpoint is not started, for a command, and for a name longer than 200 characters, StorageError.
        """
        await self._started().subscribe(_topics(events))

    async def unsubscribe(self, *events: type | str) -> None:
        """Have no more copies of these events come; those on their way still do. Raises as `subscribe`."""
        await self._started().unsubscribe(_topics(events))

    def _composing(self) -> Composer:
        return self._started().sender

    def _routed(self, message: object, type: str | None) -> Destination:
        return self._routes.find(message, type)

    async def _leave(self, send: AnySend, *, immediate: bool) -> None:  # noqa: ARG002 - always
        await self._started().gathering.leave(send)

    async def _leave_once(self, unique: UniqueSend, *, immediate: bool) -> UniqueMessageId:  # noqa: ARG002 - always
        return await self._started().dispatcher.send_once(unique)

    async def _leave_to_all(self, event: Multicast, *, immediate: bool) -> None:  # noqa: ARG002 - as above
        running = self._started()
        await running.dispatcher.dispatch(event.to(await running.subscribers.of(event.types)))


def _topics(events: tuple[type | str, ...]) -> list[str]:
    return [event_name(event) for event in events]
