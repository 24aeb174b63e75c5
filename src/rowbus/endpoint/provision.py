"""The gifts of an endpoint to handlers beyond message and context: `provide`.

Invariant: what is provided is settled before the endpoint starts.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from rowbus.endpoint.dependencies import NOTHING
from rowbus.errors import ConfigurationError
from rowbus.running.functions import described

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.endpoint.dependencies import Scope
    from rowbus.endpoint.handlers import Handlers
    from rowbus.endpoint.running import RunningEndpoint
    from rowbus.running.service import Lifetime

T = TypeVar("T")
Provided: TypeAlias = T | Awaitable[T] | AbstractContextManager[T] | AbstractAsyncContextManager[T]
"""The results that a factory may return."""


class Provision:
    """The part of an endpoint that provides."""

    name: str
    _handlers: Handlers
    _lifetime: Lifetime[RunningEndpoint]

    @overload
    def provide(self, kind: type[T], value: T, /) -> None: ...
    @overload
    def provide(
        self,
        kind: type[T],
        /,
        *,
        factory: Callable[[], Provided[T]] | Callable[[Any], Provided[T]],
        scope: Scope = "message",
    ) -> None: ...

    def provide(
        self, kind: Any, value: Any = NOTHING, /, *, factory: Any = None, scope: Scope = "message"
    ) -> None:
        """Give handlers that name this type in their signature a value, or what a factory makes.

        What a factory returns is awaited if it is awaitable, and entered and left if it is a context manager. Scope
        "message": it is called with the context of the message, if it takes an argument, for each call of a handler,
        and left before the attempt ends, so that an error there fails the attempt; for a `def` handler in its thread.
        Scope "endpoint": it is called once at the start, left at the stop, and what it made is shared by all handlers.
        Call it before the handlers are registered. Raises ConfigurationError for a type that is provided already, for
        a factory that takes more or is given as the value, and when the endpoint is started.
        """
        self._require_stopped("provide")
        if (value is NOTHING) == (factory is None):
            raise ConfigurationError("provide(…) takes a value or a factory, one of them.")
        if _is_maker(value, kind):
            text = f"{described(value)} is no {kind.__name__}: give what makes one as factory=…"
            raise ConfigurationError(text)
        if factory is None:
            self._handlers.dependencies.add_value(kind, value)
        else:
            self._handlers.dependencies.add(kind, factory, scope)

    def _require_stopped(self, what: str) -> None:
        """Raise ConfigurationError, which says what is to be done before, when the endpoint is started."""
        if self._lifetime.run is not None:
            raise ConfigurationError(f"Endpoint {self.name} is started: {what} before.")

    def provides(self, kind: object) -> bool:
        """Say whether handlers that name this type in their signature are given it. No I/O."""
        return kind in self._handlers.dependencies


def _is_maker(value: object, kind: object) -> bool:
    """Say whether a value makes objects of a type, as a function or a class does, and is none of them."""
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return False
    return (inspect.isfunction(value) or isinstance(value, type)) and not isinstance(value, kind)
