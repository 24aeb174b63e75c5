"""The messages that a program's functions name: what a handler may send, as far as its code says it.

Looked up by name in the code of a function, of the functions of its module that it names, and of the methods of its
class. What a function is given as an argument is not seen.

Invariant: nothing is called, nothing is imported.
"""

from __future__ import annotations

import inspect
import sys
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard

from rowbus.messages.message_types import declared_contract

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def mentioned(functions: Iterable[Callable[..., Any]]) -> list[type]:
    """Return the declared message classes that functions name, in the order in which they are found."""
    found: dict[type, None] = {}
    seen: set[int] = set()
    waiting: list[object] = list(functions)
    while waiting:
        function = _plain(waiting.pop(0))
        if _is_message(function):
            found.setdefault(function)
        elif isinstance(function, FunctionType) and id(function) not in seen:
            seen.add(id(function))
            waiting += [one for one in _named(function) if _is_message(one) or _is_beside(one, function)]
    return list(found)


def _plain(function: object) -> object:
    """Return the function beneath partials, methods and decorators."""
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, MethodType):
        function = function.__func__
    return inspect.unwrap(function) if isinstance(function, FunctionType) else function


def _is_message(value: object) -> TypeGuard[type]:
    return isinstance(value, type) and declared_contract(value) is not None


def _is_beside(value: object, function: FunctionType) -> bool:
    plain = _plain(value)
    return isinstance(plain, FunctionType) and plain.__module__ == function.__module__


def _named(function: FunctionType) -> Iterator[object]:
    """Give what the names in a function's code stand for: globals, those of modules, its class's methods, closures."""
    yield from _held(function)
    owner = _owner(function)
    for code in _codes(function.__code__):
        known: list[dict[str, Any]] = [function.__globals__, *([] if owner is None else [dict(vars(owner))])]
        for name in code.co_names:
            for place in list(known):
                value = place.get(name)
                if isinstance(value, ModuleType):
                    known.append(vars(value))
                elif value is not None:
                    yield value


def _held(function: FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            continue


def _owner(function: FunctionType) -> type | None:
    """Return the class that a function is a method of, if it can be found by its name."""
    found: object = sys.modules.get(function.__module__)
    for part in function.__qualname__.split(".")[:-1]:
        found = getattr(found, "__dict__", {}).get(part)
    return found if isinstance(found, type) else None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
