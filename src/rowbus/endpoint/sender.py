"""The composer of an endpoint, with what only an endpoint has: its routes, subscribers that it remembers, a mover.

Routes say which queue a message goes to that is sent without a destination.

Invariants: nothing here touches a queue, and only who subscribes is asked of the database; routes are pure, and the
most particular one wins: a message's own, then the one of the innermost module.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from rowbus.errors import ConfigurationError
from rowbus.messages.address import QueueAddress
from rowbus.messages.message_types import contract_of, is_event, refuse_no_message
from rowbus.transport.composition import Composer
from rowbus.transport.delayed.table import delayed_table

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from typing import Any

    from rowbus.database.statements import Statement
    from rowbus.messages.address import Addresses
    from rowbus.messages.bodies.serializer import Serializer
    from rowbus.messages.mutators import Mutator
    from rowbus.messages.outgoing import Origin
    from rowbus.transport.composition import Destination
    from rowbus.transport.delayed.table import DelayedTable
    from rowbus.transport.pubsub.subscribers import Ask

    FindSubscribers = Callable[[tuple[str, ...], Ask | None], Coroutine[Any, Any, Sequence[QueueAddress]]]


class Routes:
    """Where messages go, by their wire names and by the modules of their classes."""

    def __init__(self) -> None:
        """Begin with none."""
        self._by_name: dict[str, Destination] = {}
        self._by_module: dict[str, Destination] = {}
        self.messages: list[type | str] = []
        """The key of a route, as it was given."""

    def add(self, message: type | str, to: Destination) -> None:
        """Send a message there, given by class or wire name; raises ConfigurationError for an event."""
        if is_event(message):
            raise ConfigurationError(
                f"{name_of(message)} is an event: it is published to all that subscribe, and has no route."
            )
        _note(self._by_name, name_of(message), to)
        self.messages.append(message)

    def add_module(self, module: str, to: Destination) -> None:
        """Send the messages there whose classes are in a module, or in one within it."""
        _note(self._by_module, module, to)

    def find(self, message: object, name: str | None) -> Destination:
        """Return where a message goes, known as `name` or as its class is; raises ConfigurationError if nowhere."""
        if isinstance(message, (str, QueueAddress)):
            raise ConfigurationError(f"send({str(message)!r}) names a destination and no message.")
        refuse_no_message(message)
        kind: type = type(message)
        wire_name = name or contract_of(kind).name
        found = self.of(wire_name, kind.__module__)
        if found is None:
            raise ConfigurationError(
                f"{wire_name} has no route: send it with a destination, or add endpoint.route({kind.__name__}, to=…)."
            )
        return found

    def of(self, wire_name: str, module: str = "") -> Destination | None:
        """Return where a message of this name goes, whose class is in this module; None if nowhere."""
        return self._by_name.get(wire_name) or self._of_module(module)

    def _of_module(self, module: str) -> Destination | None:
        while module and module not in self._by_module:
            module = module.rpartition(".")[0]
        return self._by_module.get(module)


def name_of(message: type | str) -> str:
    """Return the wire name of a message that is given by its class, or by that name."""
    return message if isinstance(message, str) else contract_of(message).name


def _note(routes: dict[str, Destination], name: str, to: Destination) -> None:
    """Add a route; raises ConfigurationError for what is already routed elsewhere."""
    if routes.setdefault(name, to) != to:
        raise ConfigurationError(f"{name} is routed to {routes[name]}; it cannot be to {to} too.")


class Sender(Composer):
    """The composer of an endpoint."""

    def __init__(  # noqa: PLR0913 - parts, each by keyword
        self,
        addresses: Addresses,
        origin: Origin,
        *,
        subscribers: FindSubscribers,
        routes: Routes,
        local: QueueAddress,
        instance: QueueAddress | None,
        delayed: QueueAddress | None,
        can_delay: bool,
        serializer: Serializer,
        mutators: Sequence[Mutator],
    ) -> None:
        """Compose as `Composer` does; `subscribers` finds who gets events, in the transaction of the caller.

        `local` is the queue that the endpoint's instances share, `instance` this one's own beside it, if it has one;
        `delayed` is the table where its messages wait, if it has one.
        """
        super().__init__(addresses, origin, serializer=serializer, mutators=mutators, can_delay=can_delay)
        self.subscribers = subscribers
        self.routes = routes
        self.local = local
        self._instance = instance
        self._delayed = delayed

    def with_headers(self, headers: Mapping[str, str]) -> Sender:
        """Return the same sender, which adds these headers to all that it makes."""
        sender = copy(self)
        sender.headers = headers
        return sender

    @property
    def instance_address(self) -> QueueAddress:
        """The endpoint's own queue of this instance; raises ConfigurationError when it has none."""
        if self._instance is None:
            raise ConfigurationError(
                "This endpoint has no discriminator, so no queue of this instance's own."
            )
        return self._instance

    @property
    def delayed_table(self) -> DelayedTable | None:
        """The table in which the endpoint's delayed messages wait; None: they wait in a store, or not at all."""
        return None if self._delayed is None else delayed_table(self._delayed)

    def cancelling(self, message_id: str) -> Statement[int]:
        """Return the statement that cancels a message that the endpoint delayed, and says how many rows there were.

        Raises ConfigurationError for an endpoint without a table of its own.
        """
        if self.delayed_table is None:
            raise ConfigurationError(
                "Only messages in an endpoint's own table of delayed messages can be cancelled; this endpoint delays "
                "them in a store, or not at all."
            )
        return self.delayed_table.cancel(message_id)
