"""The names of a message: in the header EnclosedMessageTypes, in log lines and in measurements.

Invariants: reads headers that may be anything, and never fails; no trailing `;`, and the names in the order they were
given, the most concrete first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConfigurationError
from rowbus.messages.headers import Header, parse_enclosed_types
from rowbus.running.bounded import MOST

if TYPE_CHECKING:
    from collections.abc import Mapping

UNTYPED: Final = ""


@dataclass(slots=True, eq=False)
class MessageSubject:
    """A message in hand: what lines about it say. Its headers are not read before a line is written."""

    id: str
    _headers: Mapping[str, str | None]
    _endpoint: str
    handler: str = ""

    def description(self) -> str:
        """Return what names it to people: its id, its type and its handler, as far as they are known."""
        names = [
            first_type(self._headers.get(Header.ENCLOSED_MESSAGE_TYPES)),
            self.handler and f"in {self.handler}",
        ]
        known = " ".join(filter(None, names))
        return f"'{self.id}' ({known})" if known else f"'{self.id}'"

    def fields(self) -> dict[str, object]:
        """Return what a log line says of it."""
        return {
            "endpoint": self._endpoint,
            "handler": self.handler,
            "message_type": first_type(self._headers.get(Header.ENCLOSED_MESSAGE_TYPES)),
            "message_id": self.id,
            "conversation_id": self._headers.get(Header.CONVERSATION_ID) or "",
        }

    def cause(self) -> dict[str, str]:
        """Return what a change that its handler makes says it was caused by: this, and who asked for it."""
        asked = {
            "user": self._headers.get(Header.USER) or "",
            "request": self._headers.get(Header.REQUEST) or "",
        }
        return {name: str(value) for name, value in self.fields().items()} | asked


@lru_cache(maxsize=MOST)
def first_type(header: str | None) -> str:
    """Return the most concrete of a message's types, empty for a message without one."""
    types = parse_enclosed_types(header)
    return types[0] if types else UNTYPED


UNVERSIONED: Final = ", Version=0.0.0.0, Culture=neutral, PublicKeyToken=null"
"""Follows an assembly of which only the name is known."""

_FIRST_NAMESPACE: Final = re.compile(r"[^.+`\[\\]*")
_assemblies: dict[str, str] = {}  # of the types declared in this process, by their wire names


def declare_assembly(name: str, assembly: str) -> None:
    """Have a type be written with an assembly: its name, or `Name, Version=1.2.0.0`; raises ConfigurationError."""
    check_assembly(assembly)
    if _assemblies.get(name) != assembly:
        _assemblies[name] = assembly
        enclosed_types.cache_clear()


def check_assembly(assembly: str) -> None:
    """Raise ConfigurationError for what cannot be the name of an assembly."""
    if not assembly.strip(", ") or ";" in assembly or not assembly.isprintable():
        raise ConfigurationError(
            f'{assembly!r} is no assembly: give its name, as "Shop.Messages", or "Shop.Messages, Version=1.2.0.0".'
        )


@lru_cache(maxsize=MOST)
def enclosed_types(names: tuple[str, ...]) -> str:
    """Return the header for a message's wire names: each with its assembly, if it has one or there are several.

    .NET takes the version in `A, Version=0.0.0.0` for the assembly, and ServiceControl a bare list for one name.
    """
    entries = [entry.strip() for name in names for entry in name.split(";") if entry.strip()]
    if len(entries) == 1 and entries[0] not in _assemblies:
        return entries[0]
    package = _assemblies.get(entries[0]) if entries else None
    return ";".join(_qualified(entry, package) for entry in entries)


def _qualified(entry: str, package: str | None) -> str:
    """Return a name with its assembly: its own, the message's, or the first part of its namespace."""
    if _is_qualified(entry):
        return entry
    first = _FIRST_NAMESPACE.match(entry)
    assembly = _assemblies.get(entry) or package or (first[0] if first else "") or entry
    if "," not in assembly:
        return f"{entry}, {assembly}{UNVERSIONED}"
    return f"{entry}, {assembly}{'' if 'Culture=' in assembly else UNVERSIONED[UNVERSIONED.index(', Culture') :]}"


def names_assemblies(header: str) -> bool:
    """Say whether a header has versions of assemblies, as .NET's always do, and ours where a declaration says it."""
    return any(_is_qualified(entry) and not entry.endswith(UNVERSIONED) for entry in header.split(";"))


def _is_qualified(entry: str) -> bool:
    return parse_enclosed_types(entry) != (entry.strip(),)
