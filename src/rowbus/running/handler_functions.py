"""Functions as handlers: what cannot be one is refused when it is registered, with what to do instead.

Invariant: pure; nothing is called here.
"""

from __future__ import annotations

import inspect
import typing
from typing import TYPE_CHECKING, Any, NamedTuple

from rowbus.errors import ConfigurationError
from rowbus.running.given_functions import can_be_called, described, is_written_for

if TYPE_CHECKING:
    from collections.abc import Callable


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
    if not name or isinstance(function, type):
        raise ConfigurationError(
            f"{function!r} is no function: a handler is a function, or the method of an object, as in "
            "endpoint.handler(shop.place_order)."
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"{name} has a `yield`, so calling it would run nothing: use `return`.")
    try:
        parameters = list(inspect.signature(function).parameters)
    except ValueError:
        raise ConfigurationError(
            f"{name} does not say what it takes: call it in a function of yours."
        ) from None
    owner = name.rpartition("<locals>.")[2].rpartition(".")[0]
    if owner and not inspect.ismethod(function) and parameters[:1] in (["self"], ["cls"]):
        raise ConfigurationError(
            f"{name} is a method of a class, and there is no object yet: register it on one, as in "
            f"endpoint.handler({owner.lower()}.{name.rpartition('.')[2]}), or make it a function."
        )
    for parameter in parameters[1:]:
        _check_context(function, parameter, contexts)


def _check_context(function: Callable[..., Any], parameter: str, contexts: Contexts) -> None:
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
