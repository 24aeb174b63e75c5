"""Messages of an endpoint from outside its handlers: sent, published, cancelled, routed, and subscribed to.

Invariant: what a verb does is committed when it returns; sends of many tasks to one queue may share a transaction.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from rowbus.messages.address import address_of
from rowbus.messages.message_types import event_name
from rowbus.transport.long_work.table import work_status
from rowbus.transport.send_verbs import AsyncSendVerbs, SendOptions, asked, options_of

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Unpack

    from rowbus.endpoint.running import RunningEndpoint
    from rowbus.endpoint.sender import Routes
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.messages.dispatch import AnySend, Multicast
    from rowbus.messages.outgoing import UniqueMessageId
    from rowbus.transport.composition import Composer, Destination, Incoming
    from rowbus.transport.long_work.table import WorkStatus
    from rowbus.transport.uniqueness.table import UniqueSend


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
        running = self._started()
        return await running.dispatcher.ask(running.sender.cancelling(message_id)) > 0

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

    def _composing(self) -> tuple[Composer, Incoming]:
        return self._started().sender, None

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
