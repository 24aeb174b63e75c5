"""The contract of endpoints and logs, read from what they have registered: handlers, sagas, routes, schedules.

A handler that names an event in its code is taken to publish it, one that names a command to send it, one that names
another message to reply with it; what a route or a schedule sends is known for certain.

Invariant: no I/O; nothing of an endpoint is changed; what is read follows from its declarations alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from rowbus.contracts.contract import Action, Contract, LogReader, Message, Party, Use
from rowbus.contracts.mentions import mentioned
from rowbus.contracts.schemas import Schemas
from rowbus.endpoint import Endpoint
from rowbus.errors import ConfigurationError
from rowbus.log.log import AsyncLog, Log
from rowbus.messages.addresses import address_of
from rowbus.messages.conventions import Kind
from rowbus.messages.message_types import DEFAULT, contract_of

if TYPE_CHECKING:
    from rowbus.endpoint.parts import Parts
    from rowbus.messages.bodies.shape import Names

_ACTIONS: Final = {Kind.COMMAND: Action.SEND, Kind.EVENT: Action.PUBLISH, Kind.MESSAGE: Action.REPLY}


def describe(*members: Endpoint | Log | AsyncLog, title: str = "") -> Contract:
    """Return the contract of endpoints, and of logs with their consumers; `title` is by default their names.

    Raises ConfigurationError for what is neither.
    """
    collected = _Collection()
    for member in members:
        if isinstance(member, Endpoint):
            collected.add(member._parts())  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as it would start
        elif isinstance(member, (Log, AsyncLog)):  # pyright: ignore[reportUnnecessaryIsInstance] - what users give
            consumers = member._consumers  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            collected.readers += [LogReader(one.log, one.name) for one in consumers]
        else:
            raise ConfigurationError(f"{member!r} is neither a rowbus.Endpoint nor a rowbus.Log.")
    return collected.contract(title or ", ".join(member.name for member in members))


class _Collection:
    """What is found of several endpoints."""

    def __init__(self) -> None:
        self.readers: list[LogReader] = []
        self._parties: list[Party] = []
        self._uses: dict[Use, None] = {}
        self._messages: dict[str, Message] = {}
        self._schemas = Schemas()

    def contract(self, title: str) -> Contract:
        messages = sorted(self._messages.values())
        schemas = dict(sorted(self._schemas.found.items()))
        parties, uses = tuple(self._parties), tuple(sorted(self._uses, key=_order))
        return Contract(title, parties, tuple(messages), uses, schemas, tuple(self.readers))

    def add(self, parts: Parts) -> None:
        """Add an endpoint."""
        main = parts.handlers.serializers.main
        self._parties.append(Party(parts.name, parts.address.canonical, main.content_types[0]))
        for use, kind in _uses(parts):
            self._uses.setdefault(use)
            self._note(use.message, kind, _names(main, kind))

    def _note(self, name: str, kind: Any, names: Names) -> None:  # noqa: ANN401 - any annotation of a handler
        """Add a type of message, unless it is known by its class already."""
        is_class = isinstance(kind, type) and kind not in {dict, bytes, object}
        known = self._messages.get(name)
        if known is not None and (known.payload or not is_class):
            return
        said = contract_of(kind) if is_class and contract_of(kind).name == name else None
        self._messages[name] = Message(
            name,
            Kind.MESSAGE if said is None else said.kind,
            () if said is None else said.parents,
            self._schemas.of_message(name, kind, names),
            _description(kind) if is_class else "",
        )


def _order(use: Use) -> tuple[str, ...]:
    return (use.endpoint, use.action.value, use.message, use.to, use.saga, use.schedule)


def _names(serializer: object, kind: Any) -> Names:  # noqa: ANN401 - any annotation of a handler
    """Return how a serializer names a class's fields; one of the user's own is taken to name them as the class does."""
    names: Callable[[Any], Names] = getattr(serializer, "names_of", None) or getattr(DEFAULT, "names_of")  # noqa: B009
    return names(kind)._replace(ignore_case=False)


def _description(kind: type) -> str:
    """Return the first paragraph of a class's docstring; not the one that dataclasses make up."""
    text = inspect.cleandoc(kind.__dict__.get("__doc__") or "").partition("\n\n")[0].replace("\n", " ")
    return "" if text.startswith(f"{kind.__name__}(") else text


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
        name = message if isinstance(message, str) else contract_of(message).name
        yield Use(parts.name, Action.SEND, name, _queue(parts, name)), message
    for recurring in parts.recurring:
        to = parts.address if recurring.to is None else address_of(recurring.to, parts.addresses)
        at = f"{recurring.name}: {recurring.schedule.text}"
        for kind in [recurring.type] if recurring.type else mentioned([recurring.make]):
            name = kind if isinstance(kind, str) else contract_of(kind).name
            yield Use(parts.name, Action.SEND, name, to.canonical, schedule=at), kind


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
