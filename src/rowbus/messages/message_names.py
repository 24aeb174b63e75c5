"""What a message is called: in the header EnclosedMessageTypes, in log lines and in measurements.

Invariants: reads headers that may be anything, and never fails; no trailing `;`, and the names in the order they were
given, the most concrete first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from rowbus.messages.headers import Header, parse_enclosed_types
from rowbus.running.bounded import MOST

if TYPE_CHECKING:
    from collections.abc import Mapping

UNTYPED: Final = ""


class MessageSubject:
    """A message in hand: what lines about it say."""

    __slots__ = ("_endpoint", "_headers", "handler", "id")

    def __init__(
        self, message_id: str, headers: Mapping[str, str | None], endpoint: str, handler: str = ""
    ) -> None:
        """Take its headers as they are; nothing is read before a line is written."""
        self.id = message_id
        self.handler = handler
        self._headers = headers
        self._endpoint = endpoint

    def fields(self) -> dict[str, object]:
        """Return what a log line says of it."""
        return {
            "endpoint": self._endpoint,
            "handler": self.handler,
            "message_type": first_type(self._headers.get(Header.ENCLOSED_MESSAGE_TYPES)),
            "message_id": self.id,
            "conversation_id": self._headers.get(Header.CONVERSATION_ID) or "",
        }


@lru_cache(maxsize=MOST)
def first_type(header: str | None) -> str:
    """Return the most concrete of a message's types, empty for a message without one."""
    types = parse_enclosed_types(header)
    return types[0] if types else UNTYPED


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
