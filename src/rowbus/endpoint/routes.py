"""The routes of an endpoint: which queue a message goes to that is sent without a destination.

Invariant: pure; the most particular route wins, a message's own, then the one of the innermost module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.errors import ConfigurationError
from rowbus.messages.address import QueueAddress
from rowbus.messages.message_types import contract_of, is_event, refuse_no_message

if TYPE_CHECKING:
    Destination = str | QueueAddress


class Routes:
    """Where messages go, by their wire names and by the modules of their classes."""

    def __init__(self) -> None:
        """Begin with none."""
        self._by_name: dict[str, Destination] = {}
        self._by_module: dict[str, Destination] = {}
        self.messages: list[type | str] = []
        """What has a route of its own, as it was given."""

    def add(self, message: type | str, to: Destination) -> None:
        """Send a message there, given by class or wire name; raises ConfigurationError for an event."""
        if is_event(message):
            raise ConfigurationError(
                f"{_name_of(message)} is an event: it is published to all that subscribe, and has no route."
            )
        _note(self._by_name, _name_of(message), to)
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


def _name_of(message: type | str) -> str:
    return message if isinstance(message, str) else contract_of(message).name


def _note(routes: dict[str, Destination], name: str, to: Destination) -> None:
    """Add a route; raises ConfigurationError for what is already routed elsewhere."""
    if routes.setdefault(name, to) != to:
        raise ConfigurationError(f"{name} is routed to {routes[name]}; it cannot be to {to} too.")
