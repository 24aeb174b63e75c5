"""The handlers of an endpoint, its components' among them, and which of them take a message.

Components are parts of an endpoint that bring handlers and tables with them, such as sagas.

Invariants: what a handler takes is settled when it is registered, and nothing about it is found out while messages
flow; an endpoint knows nothing of what its components are for.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rowbus.endpoint.context import Context, MessageContext, SyncContext
from rowbus.endpoint.dependencies import NOTHING, Dependencies, Need
from rowbus.endpoint.long_context import LongContext, SyncLongContext
from rowbus.errors import ConfigurationError, UnknownMessageTypeError
from rowbus.messages.headers import parse_enclosed_types
from rowbus.messages.message_types import (
    DEFAULTS,
    Deserializer,
    contract_of,
    deserializer,
    event_name,
    is_event,
    with_parents,
)
from rowbus.running.bounded import LONGEST_REMEMBERED
from rowbus.running.functions import Contexts, check_handler, qualified_name, takes_context
from rowbus.running.setting_types import require_type
from rowbus.transport.limits.concurrency import Limit
from rowbus.transport.send_verbs import HandlerVerbs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping, Sequence
    from datetime import timedelta
    from types import UnionType

    from rowbus.messages.address import Addresses
    from rowbus.messages.bodies.serializer import Serializers
    from rowbus.transport.queues.records.table import OwnTable
    from rowbus.transport.recoverability.policy import Retries


# Takes (message), (message, context) or what is provided, too; returns None, or an awaitable of None.
HandlerFunction = Callable[..., Any]
CONTEXTS = Contexts(Context, SyncContext, HandlerVerbs)
LONG_CONTEXTS = Contexts(LongContext, SyncLongContext, HandlerVerbs)
NAMELESS = (
    "NServiceBus.EnclosedMessageTypes has an empty name among its types, which .NET reads no more than we do."
)
REMEMBERED = 1000  # header values whose plan is kept


class Handling(NamedTuple):
    """A handler that a component brings: for which message class, what is called, and what failures call it.

    A contract tells of the rest: the `part` of the component, the field by which a message finds its row there, whether
    the message is a timeout, and the `methods` of the user's that the function calls.
    """

    kind: type
    function: Callable[[object, Context], Awaitable[None]]
    name: str
    part: str = ""
    found_by: str = ""
    is_timeout: bool = False
    methods: tuple[Callable[..., Any], ...] = ()


class Component(Protocol):
    """Handlers and the tables that they need, in one endpoint."""

    @property
    def handlings(self) -> Sequence[Handling]:
        """Its handlers."""
        raise NotImplementedError

    def bind(
        self, endpoint: str, addresses: Addresses, beside: Sequence[Component], provided: Dependencies
    ) -> None:
        """Learn the endpoint's name, where its tables are, which components it has beside this one, what it provides.

        Raises ConfigurationError for what its handlers need and is not provided.
        """
        raise NotImplementedError

    @property
    def tables(self) -> Sequence[OwnTable]:
        """The tables it needs, once it is bound."""
        raise NotImplementedError


class Addition(Protocol):
    """An addition to endpoints: a class of a saga."""

    def component(self) -> Component:
        """Return a component for one endpoint."""
        raise NotImplementedError


class Handler(NamedTuple):
    """One registered handler; `takes_context` and `is_async` say how to call it."""

    name: str
    function: HandlerFunction
    read: Deserializer
    takes_context: bool
    is_async: bool
    limit: Limit | None = None
    retries: Retries | None = None
    time_limit: timedelta | None = None
    is_long: bool = False


class Plans(dict["str | None", tuple[Handler, ...]]):
    """The handlers for each EnclosedMessageTypes header, those of the most concrete type first: found when asked for.

    Those of the parents declared here for its types are among them, whether the header names these or not. Raises
    UnknownMessageTypeError when there is none.
    """

    def __init__(self, by_type: Mapping[str, Sequence[Handler]]) -> None:
        """Find them among these."""
        super().__init__()
        self._by_type = by_type

    def __missing__(self, enclosed_types: str | None) -> tuple[Handler, ...]:
        """Find them, and remember a header of usual length."""
        plan = self._find(enclosed_types or "")
        if len(self) < REMEMBERED and len(enclosed_types or "") <= LONGEST_REMEMBERED:
            self[enclosed_types] = plan
        return plan

    def _find(self, enclosed_types: str) -> tuple[Handler, ...]:
        types = parse_enclosed_types(enclosed_types)
        is_complete = not enclosed_types or all(map(str.strip, enclosed_types.split(";")))
        names = with_parents(types) if is_complete else ()
        found = {
            id(handler.function): handler
            for name in reversed(names)
            for handler in self._by_type.get(name, ())
        }
        if not found:
            cause = LookupError(
                f"NServiceBus.EnclosedMessageTypes is {enclosed_types[:LONGEST_REMEMBERED]!r}"
            )
            text = _explain_unknown(types, self._by_type) if is_complete else NAMELESS
            raise UnknownMessageTypeError(text, types=types) from cause
        ordered = [handler for name in names for handler in self._by_type.get(name, ())]
        return tuple(handler for handler in ordered if found.pop(id(handler.function), None))


class Handlers:
    """The handlers of one endpoint by the wire name of the message they take."""

    def __init__(self, serializers: Serializers = DEFAULTS, time_limit: timedelta | None = None) -> None:
        """Begin with none; bodies are read by these serializers, and written by the main one.

        `time_limit` is that of handlers without one of their own.
        """
        self.serializers = serializers
        self._time_limit = time_limit
        self.dependencies = Dependencies()
        self._by_type: dict[str, list[Handler]] = {}
        self.plans = Plans(self._by_type)
        self._events: dict[str, None] = {}
        self.subscribes: bool | None = None
        """Whether the endpoint, which is started, has subscribed to what it handles; None: it is not started."""

    def add(
        self,
        function: HandlerFunction,
        names: Sequence[str] = (),
        *,
        subscribe: bool | None = None,
        limit: Limit | None = None,
        retries: Retries | None = None,
        time_limit: timedelta | None = None,
        long: bool = False,
    ) -> None:
        """Register a handler for the type its first parameter is annotated with, or for the wire names given.

        `subscribe` says whether what it takes are events; None: whether the type was declared to be one. `limit` is for
        all instances together; `retries` and `time_limit` stand in place of the endpoint's. A function that
        needs what is provided is called through another, which makes that. Raises ConfigurationError for a function
        that cannot be a handler, or needs what is not provided.
        """
        require_type("long", long, bool, "True or False")
        require_type("subscribe", subscribe, bool | None, "True, False or None")
        require_type("limit", limit, Limit | None, "rowbus.RateLimit(…) or rowbus.Concurrency(…)")
        for name in names:
            require_type("What a handler is registered with", name or None, str, "a function, or wire names")
        check_handler(function, LONG_CONTEXTS if long else CONTEXTS)
        kind, needs = signature_of(function, self.dependencies)
        around = self.dependencies.around
        if around is not None:
            around.check(function)
        by_name = around is not None or any(not need.is_context for need in needs) or len(needs) > 1
        if by_name:
            function = self.dependencies.bind(function, needs)
        with_context = by_name or takes_context(function, "message", more=", and what is provided by name")
        names = names or _wire_names(function, kind)
        for name in names:
            self._refuse_beside(name, kind, limit, long=long)
        is_subscribed = is_event(kind) if subscribe is None else subscribe
        events = [event_name(kind) if _is_named(kind, name) else name for name in names if is_subscribed]
        self._refuse_late(events, needs_more=long or limit is not None)
        self._events.update(dict.fromkeys(events))
        for name in names:
            handler = Handler(
                qualified_name(function),
                function,
                deserializer(kind, name, self.serializers),
                with_context,
                inspect.iscoroutinefunction(function),
                limit,
                retries,
                time_limit or self._time_limit,
                long,
            )
            self._by_type.setdefault(name, []).append(handler)
        self.plans.clear()

    def add_handling(self, handling: Handling) -> None:
        """Register a component's handler, an `async` one that takes a context."""
        name = contract_of(handling.kind).name
        self._refuse_beside(name, handling.kind)
        if is_event(handling.kind):
            self._events[name] = None
        read = deserializer(handling.kind, name, self.serializers)
        handler = Handler(
            handling.name,
            handling.function,
            read,
            takes_context=True,
            is_async=True,
            time_limit=self._time_limit,
        )
        self._by_type.setdefault(name, []).append(handler)
        self.plans.clear()

    def _refuse_late(self, events: Sequence[str], *, needs_more: bool) -> None:
        """Raise ConfigurationError for what only the start of the endpoint provides, when that is over."""
        if self.subscribes is None or not (needs_more or (self.subscribes and {*events} - {*self._events})):
            return
        raise ConfigurationError(
            "Handlers of events, those with a limit and long ones are registered before their endpoint starts, which "
            "subscribes and provides for them. Later, handle an event with subscribe=False, and call `await "
            "endpoint.subscribe(…)`."
        )

    def _refuse_beside(self, name: str, kind: Any, limit: Limit | None = None, *, long: bool = False) -> None:  # noqa: ANN401 - any annotation
        """Raise ConfigurationError for a handler that cannot be beside those that its wire name has."""
        for other in self._by_type.get(name, ()):
            its = other.read.kind
            if its is not kind and _is_named(its, name) and _is_named(kind, name):
                raise ConfigurationError(
                    f"Two classes have the wire name {name}: {_qualified(its)} and {_qualified(kind)}. Handle one of "
                    "them, or give one another name."
                )
            if limit is not None and other.limit is not None:
                raise ConfigurationError(f"{name} has a limit already: its handlers share it.")
            if long or other.is_long:
                raise ConfigurationError(f"A handler of {name} takes long, so it must be the only one.")

    def each(self) -> Iterator[tuple[str, Handler]]:
        """Go through the handlers, with the wire name of what each takes."""
        return ((name, handler) for name, handlers in self._by_type.items() for handler in handlers)

    @property
    def has_functions(self) -> bool:
        """Whether a handler is a `def`, which is called in a thread."""
        return any(not handler.is_async for _, handler in self.each())

    @property
    def has_long(self) -> bool:
        """Whether a handler takes long."""
        return any(handler.is_long for _, handler in self.each())

    def limited(self, kind: type[Limit] | UnionType) -> list[Handler]:
        """Return the handlers with a limit of a kind."""
        return [handler for _, handler in self.each() if isinstance(handler.limit, kind)]

    def names(self) -> tuple[str, ...]:
        """Return the wire names that are handled."""
        return tuple(self._by_type)

    def events(self) -> tuple[str, ...]:
        """Return those of the wire names that are events, to be subscribed to."""
        return tuple(self._events)


def _explain_unknown(types: tuple[str, ...], handled: Iterable[str]) -> str:
    known = ", ".join(sorted(handled)) or "none"
    if not types:
        return f"The message does not say what it is (no NServiceBus.EnclosedMessageTypes); handled here: {known}."
    return f"No handler for {' or '.join(types)}; handled here: {known}."


def _is_named(kind: Any, name: str) -> bool:  # noqa: ANN401 - any annotation
    return isinstance(kind, type) and contract_of(kind).name == name


def _qualified(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def signature_of(function: HandlerFunction, provided: Dependencies) -> tuple[Any, tuple[Need, ...]]:
    """Return the annotation of a handler's message (None if it has none) and what it takes beyond."""
    hints = _hints(function)
    parameters = list(inspect.signature(function).parameters.values())
    beyond = [one for one in parameters[1:] if _is_needed(one, hints, provided)]
    kinds = [(one.name, hints.get(one.name, NOTHING)) for one in beyond]
    needs = (
        Need(name, kind, is_context=kind not in provided and _may_be_context(kind, position))
        for position, (name, kind) in enumerate(kinds)
    )
    return hints.get(parameters[0].name) if parameters else None, tuple(needs)


def _is_needed(parameter: inspect.Parameter, hints: Mapping[str, Any], provided: Dependencies) -> bool:
    """Say whether a parameter beyond the message is to be given: not what takes the rest, nor a keyword's default."""
    if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
        return False
    if parameter.kind is not parameter.KEYWORD_ONLY or parameter.default is parameter.empty:
        return True
    kind = hints.get(parameter.name, NOTHING)
    return parameter.name == "context" or kind in provided


def _may_be_context(kind: Any, position: int) -> bool:  # noqa: ANN401 - any annotation
    """Say whether a parameter beyond the message is the context: by its type, or the first by saying nothing else."""
    if isinstance(kind, type) and issubclass(kind, MessageContext):
        return True
    says_nothing = kind in {Any, object} or not isinstance(kind, type) or getattr(kind, "_is_protocol", False)
    return position == 0 and says_nothing


def _hints(function: HandlerFunction) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except NameError as error:
        raise ConfigurationError(
            f"{function.__qualname__}: the annotation {error.name!r} cannot be found at run time; import it outside "
            f'`if TYPE_CHECKING`, or name the message: @endpoint.handler("Namespace.Message").'
        ) from error


def _wire_names(function: HandlerFunction, kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - any annotation
    if kind is None or kind in {dict, bytes, object} or typing.get_origin(kind) is dict:
        raise ConfigurationError(
            f"{function.__qualname__}: say which message it takes, by annotating it with a message class or with "
            f'@endpoint.handler("Namespace.Message").'
        )
    if not isinstance(kind, type):
        raise ConfigurationError(f"{function.__qualname__}: {kind!r} is not a message class.")
    return (contract_of(kind).name,)
