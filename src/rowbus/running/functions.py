"""Functions that users give: whether they can be called as they will be, awaited, and be handlers at all.

What is called and not awaited must be no coroutine function: the call would do nothing, and nobody would hear of it.

Invariant: what cannot be called is refused when it is given; nothing is called here.
"""

from __future__ import annotations

import inspect
import os
import sys
import typing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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


def qualified_name(function: object) -> str:
    """Return a function's name with its module; that of a callable object's class."""
    while isinstance(function, partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{getattr(named, '__qualname__', '')}"


PACKAGE = f"{Path(__file__).resolve().parents[1]}{os.sep}"


def calling_line() -> str:
    """Return the function and the line of a program that called into Rowbus; empty where none is on the stack."""
    frame = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - documented
    while frame.f_code.co_filename.startswith(PACKAGE):
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    code = frame.f_code
    return f"{frame.f_globals.get('__name__', '')}.{code.co_qualname} ({code.co_filename}, line {frame.f_lineno})"


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


class Contexts(NamedTuple):
    """The contexts that handlers are given: `async def` ones, `def` ones, and what all contexts are."""

    of_async: type
    of_sync: type
    of_any: type


def takes_context(function: Callable[..., Any], *before: str, more: str = "") -> bool:
    """Say whether a function is given a context, after other arguments: what takes one by position is given it.

    Raises ConfigurationError for what can be called neither with nor without it, and for a `context` that is taken by
    keyword alone, which would never be given; `more` ends the text.
    """
    ways = [way for way in ((*before, "context"), before) if can_be_called(function, *way)]
    if not ways or _wants_keyword(function):
        given = ", ".join(before)
        raise ConfigurationError(
            f"{described(function)} must take ({given}) or ({given}, context), by position{more}."
        )
    meant = [way for way in ways if is_written_for(function, *way)]
    return len((meant or ways)[0]) > len(before)


def _wants_keyword(function: Callable[..., Any]) -> bool:
    context = inspect.signature(function).parameters.get("context")
    return context is not None and context.kind is context.KEYWORD_ONLY


def check_handler(function: Callable[..., Any], contexts: Contexts) -> None:
    """Raise ConfigurationError for a class, an object, an unbound method, a generator, or a wrong context."""
    name = getattr(function, "__qualname__", "")
    if not name or isinstance(function, type) or not callable(function):
        raise ConfigurationError(
            f"{function!r} is no function: a handler is a function, or the method of an object, as in "
            "endpoint.handler(shop.place_order)."
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"{name} has a `yield`, so calling it would run nothing: use `return`.")
    if _signature(function, is_decorated=True) is None:
        raise ConfigurationError(f"{name} does not say what it takes: call it in a function of yours.")
    parameters = list(inspect.signature(function).parameters)
    owner = name.rpartition("<locals>.")[2].rpartition(".")[0]
    if owner and not inspect.ismethod(function) and parameters[:1] in (["self"], ["cls"]):
        raise ConfigurationError(
            f"{name} is a method of a class, and there is no object yet: register it on one, as in "
            f"endpoint.handler({owner.lower()}.{name.rpartition('.')[2]}), or make it a function."
        )
    for parameter in parameters[1:]:
        check_context(function, parameter, contexts)


def check_context(function: Callable[..., Any], parameter: str, contexts: Contexts) -> None:
    """Raise ConfigurationError for a parameter that is annotated with another context than the function is given."""
    is_async = inspect.iscoroutinefunction(function)
    given, other = contexts[:2] if is_async else contexts[1::-1]
    asked = _hints(function).get(parameter)
    if not isinstance(asked, type) or not issubclass(asked, contexts.of_any) or issubclass(given, asked):
        return
    kind, opposite = ("an `async def`", "a `def`") if is_async else ("a `def`", "an `async def`")
    way_out = f", or make it {opposite}" if asked is other else ""
    raise ConfigurationError(
        f"{function.__qualname__} is {kind}, so its {parameter} is a {given.__name__}, and not the {asked.__name__} "
        f"that it is annotated with: write {parameter}: rowbus.{given.__name__}{way_out}."
    )


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except NameError:  # imported for type checkers only
        return {}
