"""The handlers of an endpoint, and which of them take a message.

Invariant: what a handler takes is settled when it is registered; nothing about it is found out while messages flow.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from rowbus.errors import ConfigurationError, UnknownMessageTypeError
from rowbus.messages.headers import parse_enclosed_types
from rowbus.messages.message_types import (
    DEFAULTS,
    Deserializer,
    contract_of,
    deserializer,
    is_event,
    with_parents,
)
from rowbus.running.bounded import LONGEST_REMEMBERED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.messages.bodies.serializer import Serializers

HandlerFunction = Callable[
    ..., Any
]  # (message) or (message, context), returning None or an awaitable of None
REMEMBERED = 1000  # header values whose plan is kept


class Handler(NamedTuple):
    """One registered handler; `takes_context` and `is_async` say how to call it."""

    name: str
    function: HandlerFunction
    read: Deserializer
    takes_context: bool
    is_async: bool


class Handlers:
    """The handlers of one endpoint by the wire name of the message they take."""

    def __init__(self, serializers: Serializers = DEFAULTS) -> None:
        """Begin with none; bodies are read by these serializers, and written by the main one."""
        self.serializers = serializers
        self._by_type: dict[str, list[Handler]] = {}
        self._plans: dict[str | None, tuple[Handler, ...]] = {}
        self._events: dict[str, None] = {}

    def add(
        self, function: HandlerFunction, names: Sequence[str] = (), *, subscribe: bool | None = None
    ) -> None:
        """Register a handler for the type its first parameter is annotated with, or for the wire names given.

        `subscribe` says whether what it takes are events; None: whether the type was declared to be one. Raises
        ConfigurationError for a function that cannot be a handler.
        """
        kind, takes_context = _signature(function)
        names = names or _wire_names(function, kind)
        if is_event(kind) if subscribe is None else subscribe:
            self._events.update(dict.fromkeys(names))
        for name in names:
            handler = Handler(
                f"{function.__module__}.{function.__qualname__}",
                function,
                deserializer(kind, name, self.serializers),
                takes_context,
                inspect.iscoroutinefunction(function),
            )
            self._by_type.setdefault(name, []).append(handler)
        self._plans.clear()

    def names(self) -> tuple[str, ...]:
        """Return the wire names that are handled."""
        return tuple(self._by_type)

    def events(self) -> tuple[str, ...]:
        """Return those of the wire names that are events, to be subscribed to."""
        return tuple(self._events)

    def plan(self, enclosed_types: str | None) -> tuple[Handler, ...]:
        """Return the handlers for a message's EnclosedMessageTypes header, those of the most concrete type first.

        Those of the parents declared here for its types are among them, whether the header names these or not.
        Raises UnknownMessageTypeError when there is none.
        """
        plan = self._plans.get(enclosed_types)
        if plan is None:
            plan = self._find(parse_enclosed_types(enclosed_types))
            if len(self._plans) < REMEMBERED and len(enclosed_types or "") <= LONGEST_REMEMBERED:
                self._plans[enclosed_types] = plan
        return plan

    def _find(self, types: Iterable[str]) -> tuple[Handler, ...]:
        types = tuple(types)
        names = with_parents(types)
        found = {
            id(handler.function): handler
            for name in reversed(names)
            for handler in self._by_type.get(name, ())
        }
        if not found:
            raise UnknownMessageTypeError(_explain_unknown(types, self._by_type), types=types)
        ordered = [handler for name in names for handler in self._by_type.get(name, ())]
        return tuple(handler for handler in ordered if found.pop(id(handler.function), None))


def _explain_unknown(types: tuple[str, ...], handled: Iterable[str]) -> str:
    known = ", ".join(sorted(handled)) or "none"
    if not types:
        return f"The message does not say what it is (no NServiceBus.EnclosedMessageTypes); handled here: {known}."
    return f"No handler for {' or '.join(types)}; handled here: {known}."


def _signature(function: HandlerFunction) -> tuple[Any, bool]:
    """Return the annotation of a handler's message (None if it has none) and whether it takes a context."""
    parameters = list(inspect.signature(function).parameters.values())
    if not 1 <= len(parameters) <= 2:  # noqa: PLR2004 - the message, and perhaps the context
        raise ConfigurationError(f"{function.__qualname__} must take (message) or (message, context).")
    hints = _hints(function)
    return hints.get(parameters[0].name), len(parameters) > 1


def _hints(function: HandlerFunction) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except NameError as error:
        raise ConfigurationError(
            f"{function.__qualname__}: the annotation {error.name!r} cannot be found at run time; import it outside "
            f'`if TYPE_CHECKING`, or name the message: @endpoint.handler("Namespace.Message").'
        ) from error


def _wire_names(function: HandlerFunction, kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - whatever was annotated
    if kind is None or kind in {dict, bytes, object} or typing.get_origin(kind) is dict:
        raise ConfigurationError(
            f"{function.__qualname__}: say which message it takes, by annotating it with a message class or with "
            f'@endpoint.handler("Namespace.Message").'
        )
    if not isinstance(kind, type):
        raise ConfigurationError(f"{function.__qualname__}: {kind!r} is not a message class.")
    return (contract_of(kind).name,)
