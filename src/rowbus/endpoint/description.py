"""The contract of one endpoint, read from its handlers, sagas, routes and schedules.

A handler that names an event in its code is taken to publish it, one that names a command to send it, one that names
another message to reply with it; what a route or a schedule sends is known for certain.

Invariant: no I/O; nothing of an endpoint is changed; what is read follows from its declarations alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from rowbus.contracts.contract import Action, Party, Use
from rowbus.contracts.describing import Collection
from rowbus.contracts.mentions import mentioned
from rowbus.endpoint.sender import name_of
from rowbus.messages.address import address_of
from rowbus.messages.conventions import Kind
from rowbus.messages.message_types import contract_of

if TYPE_CHECKING:
    from rowbus.contracts.contract import Contract
    from rowbus.endpoint.parts import Parts

_ACTIONS: Final = {Kind.COMMAND: Action.SEND, Kind.EVENT: Action.PUBLISH, Kind.MESSAGE: Action.REPLY}


def contract_of_parts(parts: Parts) -> Contract:
    """Return the contract of one endpoint."""
    found = Collection()
    add_endpoint(found, parts)
    return found.contract(parts.name)


def add_endpoint(found: Collection, parts: Parts) -> None:
    """Add an endpoint to what is found of several."""
    main = parts.handlers.serializers.main
    found.add_party(Party(parts.name, parts.address.canonical, main.content_types[0]), main, _uses(parts))


def _uses(parts: Parts) -> Iterator[tuple[Use, Any]]:
    """Give what an endpoint does, each with the class or annotation of its message."""
    timeouts = {
        contract_of(one.kind).name for each in parts.components for one in each.handlings if one.is_timeout
    }
    for use, kind, functions in _handled(parts):
        yield use, kind
        for named in mentioned(functions):
            if named is not kind:
                yield _sent(parts, named, timeouts), named
    for message in parts.routes.messages:
        name = name_of(message)
        yield Use(parts.name, Action.SEND, name, _queue(parts, name)), message
    for recurring in parts.recurring:
        to = parts.address if recurring.to is None else address_of(recurring.to, parts.addresses)
        at = f"{recurring.name}: {recurring.schedule.text}"
        for kind in [recurring.type] if recurring.type else mentioned([recurring.make]):
            yield Use(parts.name, Action.SEND, name_of(kind), to.canonical, schedule=at), kind


def _handled(parts: Parts) -> Iterator[tuple[Use, Any, tuple[Callable[..., Any], ...]]]:
    """Give what an endpoint handles, with the functions that do it."""
    of_components: set[tuple[str, str]] = set()
    events = parts.handlers.events()
    for each in parts.components:
        for one in each.handlings:
            name = contract_of(one.kind).name
            of_components.add((name, one.name))
            use = Use(parts.name, Action.HANDLE, name, "", name in events, one.is_timeout)
            yield use._replace(saga=one.part, found_by=one.found_by), one.kind, one.methods
    for name, handler in parts.handlers.each():
        if (name, handler.name) not in of_components:
            use = Use(parts.name, Action.HANDLE, name, is_subscribed=name in events)
            yield use, handler.read.kind, (handler.function,)


def _sent(parts: Parts, kind: type, timeouts: set[str]) -> Use:
    """Return what an endpoint does with a message that its handlers name: a timeout goes to itself."""
    contract = contract_of(kind)
    if contract.name in timeouts:
        return Use(parts.name, Action.SEND, contract.name, parts.address.canonical, is_timeout=True)
    action = _ACTIONS[contract.kind]
    to = _queue(parts, contract.name, kind.__module__) if action is Action.SEND else ""
    return Use(parts.name, action, contract.name, to)


def _queue(parts: Parts, name: str, module: str = "") -> str:
    to = parts.routes.of(name, module)
    return "" if to is None else address_of(to, parts.addresses).canonical
