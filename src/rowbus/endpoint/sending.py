"""Messages of an endpoint from outside its handlers: sent, cancelled, and where they go without a destination.

Invariant: each verb is one transaction of its own, committed when it returns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, overload

from rowbus.messages.addresses import address_of
from rowbus.messages.outgoing import Options
from rowbus.transport.send_verbs import ROUTED, OutsideOptions, Routing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta
    from types import ModuleType
    from typing import Unpack

    from rowbus.endpoint.routes import Routes
    from rowbus.endpoint.running import RunningEndpoint
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses


class Sending(Routing, ABC):
    """The sending side of an endpoint."""

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

    async def send_local(self, message: object, **options: Unpack[OutsideOptions]) -> str:
        """Send to the endpoint's own queue from outside a handler; otherwise as `send`."""
        return await self.send(self.address, message, **options)

    async def cancel(self, message_id: str) -> bool:
        """Cancel a message that this endpoint delayed, from outside a handler; say whether it still waited.

        In a transaction of its own; otherwise as `Context.cancel`. Raises ConfigurationError also when the endpoint is
        not started.
        """
        return await self._started().cancel(message_id)

    @overload
    async def send(
        self, destination: str | QueueAddress, message: object, **options: Unpack[OutsideOptions]
    ) -> str: ...
    @overload
    async def send(self, message: object, /, **options: Unpack[OutsideOptions]) -> str: ...

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
        reply_to_this_instance: bool = False,
        new_conversation: str | None = None,
    ) -> str:
        """Send from outside a handler, in a transaction of its own, and return the message id.

        A message without a destination goes where `route` says. `new_conversation` is the id of its conversation.
        Replies go to the endpoint's queue, to `reply_to`, or to this instance's own queue. Raises as `Context.send`,
        and ConfigurationError when the endpoint is not started.
        """
        running = self._started()
        sender = running.sender(instance=reply_to_this_instance)
        options = Options(
            headers, time_to_be_received, new_conversation, reply_to, delay, deliver_at, type=type
        )
        to, sent = self._addressed(destination, message, type)
        send = sender.send(to, sent, options)
        await running.dispatcher.dispatch([send])
        return send.message.message_id

    def _routed(self, message: object, type: str | None) -> str | QueueAddress:
        return self._routes.find(message, type)
