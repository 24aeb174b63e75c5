"""Dependencies that handlers name in their signatures beside message and context: settings, sessions, HTTP clients.

A dependency is given by its type: as a value, made once for the life of the endpoint, or made for each call of a
handler. A handler that needs any is registered as a function of message and context that makes them, calls it and ends
them; one that needs none is registered as it is.

Invariant: what was made for a call ends before the attempt does, so that its failure is the attempt's.
"""

from __future__ import annotations

import functools
import inspect
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from rowbus.errors import ConfigurationError, HandlerError
from rowbus.running.functions import can_be_called, described, is_async

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping
    from contextlib import AbstractContextManager

Scope = Literal["endpoint", "message"]
"""The time that a factory's thing is used: while the endpoint is started, or for one call of a handler."""


class Nothing(Enum):
    """Stands for a value that was not given; None is one."""

    NOTHING = "nothing"


NOTHING: Final = Nothing.NOTHING

_replaced: ContextVar[Mapping[Any, Any]] = ContextVar("rowbus_replaced", default={})  # noqa: B039 - never changed


_VARIADIC: Final = frozenset({inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD})


class Provider(NamedTuple):
    """The maker of one dependency; `takes_context` says whether its factory is called with the handler's context."""

    kind: Any
    factory: Callable[..., Any]
    scope: Scope
    takes_context: bool = False

    @property
    def needs_loop(self) -> bool:
        """Whether what it makes for a message is known to be awaited, or entered asynchronously."""
        made = inspect.unwrap(self.factory)
        is_coroutine = is_async(made) or inspect.isasyncgenfunction(made)
        return self.scope == "message" and (is_coroutine or _is_asynchronous(self.kind))

    def make(self, context: object) -> Any:  # noqa: ANN401 - what the factory returns
        """Call the factory."""
        return self.factory(context) if self.takes_context else self.factory()


class Around(Protocol):
    """A block that every handler of an endpoint runs inside of, such as an ORM that finds its connection by itself."""

    def check(self, function: Callable[..., Any]) -> None:
        """Raise ConfigurationError for a handler that cannot run in it."""
        raise NotImplementedError

    def __call__(self, context: Any) -> AbstractContextManager[None]:  # noqa: ANN401 - a SyncContext
        """Return what a `def` handler's call is inside of, in its thread."""
        raise NotImplementedError


class Need(NamedTuple):
    """One parameter of a handler beyond its message, by its name and type; its context is one, too."""

    parameter: str
    kind: Any
    is_context: bool = False


class Dependencies:
    """The dependencies of one endpoint."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._providers: dict[Any, Provider] = {}
        self._values: dict[Any, Any] = {}
        self.around: Around | None = None
        """The block that every handler runs inside of, with what is made for it."""
        self.living: Mapping[Any, Any] = {}
        """The things made for the life of the endpoint, while it is started."""

    def __contains__(self, kind: object) -> bool:
        """Say whether this type is provided."""
        return kind in self._values or kind in self._providers

    def add_value(self, kind: Any, value: object) -> None:  # noqa: ANN401 - a type, of any form
        """Provide a value; raises ConfigurationError for a type that is provided."""
        self._refuse_known(kind)
        self._values[kind] = value

    def add(self, kind: Any, factory: Callable[..., Any], scope: Scope) -> None:  # noqa: ANN401 - as above
        """Provide what a factory makes; raises ConfigurationError for a factory that cannot be called."""
        self._refuse_known(kind)
        takes_context = _takes_context(factory)
        if takes_context and scope == "endpoint":
            raise ConfigurationError(
                f"The factory of {_name(kind)} takes a context, so what it makes is for one message: scope='message'."
            )
        self._providers[kind] = Provider(kind, factory, scope, takes_context)

    def require(self, function: Callable[..., Any], need: Need) -> None:
        """Raise ConfigurationError when a handler's parameter is not provided, or cannot be in a thread."""
        name = f"{function.__qualname__}: its parameter {need.parameter!r}"
        if need.kind not in self:
            known = ", ".join(map(_name, (*self._values, *self._providers))) or "nothing"
            raise ConfigurationError(
                f"{name} is {_what(need.kind)}, which the endpoint does not provide. A handler takes the message, "
                "perhaps a rowbus.Context (`def`: rowbus.SyncContext), and what endpoint.provide(…) was called for "
                f"before; provided so far: {known}."
            )
        provider = self._providers.get(need.kind)
        if provider is not None and provider.needs_loop and not inspect.iscoroutinefunction(function):
            raise ConfigurationError(f"{name}: {_asynchronous(need.kind)}")

    def bind(self, function: Callable[..., Any], needs: tuple[Need, ...]) -> Callable[..., Any]:
        """Return a handler of message and context that calls this one with what it needs, by name.

        Raises ConfigurationError for a handler that cannot be called so, and as `require`.
        """
        for need in needs:
            if not need.is_context:
                self.require(function, need)
        names = [need.parameter for need in needs]
        if not can_be_called(function, "message", **dict.fromkeys(names)):
            given = ", ".join(["message", *(f"{name}={name}" for name in names)])
            raise ConfigurationError(f"{described(function)} cannot be called as a handler: ({given}).")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call_async(message: object, context: object) -> None:
                async with AsyncExitStack() as stack:
                    await function(
                        message,
                        **{need.parameter: await self._give_async(need, context, stack) for need in needs},
                    )

            return call_async

        @functools.wraps(function)
        def call(message: object, context: object) -> None:
            with ExitStack() as stack:
                if self.around is not None:
                    stack.enter_context(self.around(context))
                function(message, **{need.parameter: self._give(need, context, stack) for need in needs})

        return call

    # --- life

    @asynccontextmanager
    async def made(self, but: Collection[Any] = ()) -> AsyncGenerator[Mapping[Any, Any]]:
        """Make what lives as long as the endpoint, in the order of `provide`; end it in the reverse order."""
        async with AsyncExitStack() as stack:
            made: dict[Any, Any] = {}
            known = {*but, *_replaced.get()}
            for kind, provider in self._providers.items():
                if provider.scope == "endpoint" and kind not in known:
                    made[kind] = await _enter_async(provider.make(None), stack)
            yield made

    @asynccontextmanager
    async def replaced(self, values: Mapping[Any, Any]) -> AsyncGenerator[None]:
        """For a test: give these values instead, and make what else would live as long as the endpoint.

        Raises ConfigurationError for a type that is not provided.
        """
        for kind in values:
            if kind not in self:
                raise ConfigurationError(f"{_name(kind)} is not provided, so it cannot be replaced.")
        async with self.made(but=values) as made:
            with replacing({**made, **values}):
                yield

    # --- one call

    async def _give_async(self, need: Need, context: object, stack: AsyncExitStack) -> Any:  # noqa: ANN401 - any type
        known = context if need.is_context else self._known(need.kind)
        if known is not NOTHING:
            return known
        return await _enter_async(self._providers[need.kind].make(context), stack)

    def _give(self, need: Need, context: object, stack: ExitStack) -> Any:  # noqa: ANN401 - as above
        known = context if need.is_context else self._known(need.kind)
        if known is not NOTHING:
            return known
        made = self._providers[need.kind].make(context)
        if hasattr(made, "__enter__"):
            return stack.enter_context(made)
        if hasattr(made, "__aenter__") or inspect.isawaitable(made):
            if inspect.iscoroutine(made):
                made.close()
            raise HandlerError(_asynchronous(need.kind))
        return made

    def _known(self, kind: Any) -> Any:  # noqa: ANN401 - as above
        for values in (_replaced.get(), self._values, self.living):
            if kind in values:
                return values[kind]
        return NOTHING

    def _refuse_known(self, kind: Any) -> None:  # noqa: ANN401 - as above
        if kind in self:
            raise ConfigurationError(f"{_name(kind)} is provided already.")


@contextmanager
def replacing(values: Mapping[Any, Any]) -> Generator[None]:
    """For a test: have what is called, and what starts, in this block find these values instead of what is provided."""
    token = _replaced.set({**_replaced.get(), **values})
    try:
        yield
    finally:
        _replaced.reset(token)


async def _enter_async(made: Any, stack: AsyncExitStack) -> Any:  # noqa: ANN401 - what a factory returned
    """Return what a factory made: awaited, and entered if it is a context manager."""
    if inspect.isawaitable(made):
        made = await made
    if hasattr(made, "__aenter__"):
        return await stack.enter_async_context(made)
    if hasattr(made, "__enter__"):
        return stack.enter_context(made)
    return made


def _takes_context(factory: Callable[..., Any]) -> bool:
    """Say whether a factory has to be called with a context; raises ConfigurationError if it takes more."""
    try:
        parameters = list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):  # one of C's: it takes what it takes
        parameters = []
    needed = [one for one in parameters if one.default is one.empty and one.kind not in _VARIADIC]
    if len(needed) > 1:
        raise ConfigurationError(
            f"{_name(factory)} must take nothing, or the handler's context, to make a dependency."
        )
    return len(needed) == 1


def _is_asynchronous(kind: object) -> bool:
    return hasattr(kind, "__aenter__") and not hasattr(kind, "__enter__")


def _asynchronous(kind: object) -> str:
    return (
        f"{_name(kind)} is made asynchronously for each message, and a `def` handler runs in a thread. Make the "
        "handler an `async def`, or have a factory that is none."
    )


def _what(kind: Any) -> str:  # noqa: ANN401 - a type, of any form
    return "not annotated" if kind is NOTHING else f"of type {_name(kind)}"


def _name(kind: object) -> str:
    return str(getattr(kind, "__qualname__", None) or kind)
