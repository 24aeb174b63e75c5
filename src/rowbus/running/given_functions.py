"""Functions that users give: whether they can be called as they will be, and whether a call would have to be awaited.

What is called and not awaited must be no coroutine function: the call would do nothing, and nobody would hear of it.

Invariant: what cannot be called is refused when it is given; nothing is called here.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def is_async(function: object) -> bool:
    """Say whether a call is to be awaited: this is an `async def`, a partial of one, or an object called like one."""
    return _is_any(function, inspect.iscoroutinefunction)


def runs_nothing(function: object) -> bool:
    """Say whether a call alone runs nothing of a function: it is to be awaited, or to be iterated."""
    kinds = inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction
    return _is_any(function, *kinds)


def _is_any(function: object, *kinds: Callable[[object], bool]) -> bool:
    while isinstance(function, partial):
        function = function.func
    return any(is_kind(one) for one in (function, type(function).__call__) for is_kind in kinds)


def can_be_called(function: Callable[..., Any], *given: object, **named: object) -> bool | None:
    """Say whether a function takes these arguments; None: it does not say what it takes, as some of C's.

    A decorated function takes what the decorator's takes.
    """
    return _takes(_signature(function, is_decorated=True), given, named)


def is_written_for(function: Callable[..., Any], *given: object) -> bool | None:
    """Say whether a function takes these arguments beneath its decorators, which may take anything."""
    return _takes(_signature(function, is_decorated=False), given, {})


def described(function: object) -> str:
    """Return a function's name with its parameters, as a text about it shows them."""
    while isinstance(function, partial):
        function = function.func
    name = str(getattr(function, "__qualname__", type(function).__qualname__))
    signature = _signature(function, is_decorated=True)
    return name if signature is None else f"{name}{_without_annotations(signature)}"


def check_function(function: object, what: str, *parameters: str) -> None:
    """Raise ConfigurationError for what cannot be called with these arguments, or what its caller would not await.

    `what` says in the text what the function is for.
    """
    form = f"({', '.join(parameters)})" if parameters else "no arguments"
    if not callable(function):
        raise ConfigurationError(f"{what} is {function!r}: give a function that takes {form}.")
    if runs_nothing(function):
        raise ConfigurationError(
            f"{what} is {described(function)}, of which a call runs nothing (an `async def`, or a generator): make it "
            f"a `def` that takes {form}."
        )
    if can_be_called(function, *parameters) is False:
        raise ConfigurationError(f"{what} is {described(function)}: it must take {form}.")


def is_unawaited(returned: object) -> bool:
    """Say whether a call returned what its caller would have to await, and does not; a coroutine is closed."""
    if not inspect.isawaitable(returned):
        return False
    if inspect.iscoroutine(returned):
        returned.close()
    return True


def _takes(
    signature: inspect.Signature | None, given: Sequence[object], named: Mapping[str, object]
) -> bool | None:
    if signature is None:
        return None
    try:
        signature.bind(*given, **named)
    except TypeError:
        return False
    return True


def _signature(function: Any, *, is_decorated: bool) -> inspect.Signature | None:  # noqa: ANN401 - what a user gives
    try:
        return inspect.signature(function, follow_wrapped=not is_decorated)
    except (TypeError, ValueError):
        return None


def _without_annotations(signature: inspect.Signature) -> inspect.Signature:
    empty = inspect.Parameter.empty
    plain = [parameter.replace(annotation=empty) for parameter in signature.parameters.values()]
    return signature.replace(parameters=plain, return_annotation=empty)
