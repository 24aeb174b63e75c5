"""Conventions: which classes are commands, events or messages, and what they are called in .NET, without decorators.

Invariant: pure, but for the list of the process's conventions, of which the first that takes a class counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from rowbus.errors import ConfigurationError
from rowbus.running.functions import check_function

if TYPE_CHECKING:
    from datetime import timedelta

Classes = str | type | Callable[[type], bool]
"""Some classes: one, a module, a class or a pattern of such names (`shop.*.commands.*`), or a function that says."""


class Kind(Enum):
    """The kind of a message, which says how it may travel."""

    COMMAND = "command"
    EVENT = "event"
    MESSAGE = "message"


class Conventional(NamedTuple):
    """The word of conventions on a class."""

    kind: Kind
    name: str
    assembly: str | None
    time_to_be_received: timedelta | None


class Conventions(NamedTuple):
    """The kinds of classes, and which .NET namespaces stand for their modules."""

    kinds: Mapping[Kind, tuple[Classes, ...]]
    namespaces: Mapping[str, str]
    assembly: str | None = None
    time_to_be_received: timedelta | None = None

    def of(self, kind: type) -> Conventional | None:
        """Return what a class is, None if they say nothing of it; raises ConfigurationError for two answers."""
        found = [one for one, classes in self.kinds.items() if any(_takes(which, kind) for which in classes)]
        if len(found) > 1:
            kinds = " and ".join(one.value for one in found)
            raise ConfigurationError(
                f"{_full_name(kind)} is {kinds} by convention: a message is one of them."
            )
        if not found:
            return None
        return Conventional(found[0], self._name(kind), self.assembly, self.time_to_be_received)

    def _name(self, kind: type) -> str:
        module = kind.__module__
        while module and module not in self.namespaces:
            module = module.rpartition(".")[0]
        if not module:
            return _full_name(kind)
        within = kind.__qualname__.rpartition("<locals>.")[2]
        return f"{self.namespaces[module]}.{within.replace('.', '+')}"  # as .NET names nested classes


def conventions(
    commands: Classes | Sequence[Classes],
    events: Classes | Sequence[Classes],
    messages: Classes | Sequence[Classes],
    namespaces: Mapping[str, str],
) -> Conventions:
    """Return conventions as a user gives them; raises ConfigurationError for what says nothing of any class."""
    kinds = {
        Kind.COMMAND: _several(commands),
        Kind.EVENT: _several(events),
        Kind.MESSAGE: _several(messages),
    }
    if not any(kinds.values()):
        raise ConfigurationError("Say which classes are declared: commands=, events= or messages=.")
    for namespace in (*namespaces, *namespaces.values()):
        if not namespace or not namespace.isprintable() or any(one in namespace for one in ";, "):
            raise ConfigurationError(f"{namespace!r} is neither a module nor a namespace.")
    return Conventions(kinds, dict(namespaces))


def _several(classes: Classes | Sequence[Classes]) -> tuple[Classes, ...]:
    given = (classes,) if isinstance(classes, str) or callable(classes) else tuple(classes)
    for one in given:
        if not (one if isinstance(one, str) else callable(one)):
            raise ConfigurationError(
                f"{one!r} says of no class whether it is meant: give a name or a function."
            )
        if not isinstance(one, (str, type)):
            check_function(one, "The function that says which classes are meant", "class")
    return given


def _takes(which: Classes, kind: type) -> bool:
    if isinstance(which, type):
        return which is kind
    if not isinstance(which, str):
        return bool(which(kind))
    name = _full_name(kind)
    return fnmatchcase(name, which) or name.startswith(f"{which}.")


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
