"""The header EnclosedMessageTypes as it is written (docs/wire-format.md#message-types).

Invariant: pure; no trailing `;`, and the names in the order they were given, the most concrete first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from rowbus.messages.headers import parse_enclosed_types
from rowbus.running.bounded import MOST

QUALIFIED: Final = ", Version=0.0.0.0, Culture=neutral, PublicKeyToken=null"
"""Follows each of several names: ServiceControl takes all of a bare list for one name."""


@lru_cache(maxsize=MOST)
def enclosed_types(names: tuple[str, ...]) -> str:
    """Return the header for a message's wire names: one as it is, each of several as .NET qualifies it."""
    entries = [entry.strip() for name in names for entry in name.split(";") if entry.strip()]
    if len(entries) < 2:  # noqa: PLR2004 - one name needs nothing that ends it
        return "".join(entries)
    return ";".join(entry if _is_qualified(entry) else f"{entry}{QUALIFIED}" for entry in entries)


def names_assemblies(header: str) -> bool:
    """Say whether a header names assemblies of types: .NET always does, we do where a wire name has one."""
    return any(_is_qualified(entry.strip().removesuffix(QUALIFIED)) for entry in header.split(";"))


def _is_qualified(entry: str) -> bool:
    return parse_enclosed_types(entry) != (entry,)
