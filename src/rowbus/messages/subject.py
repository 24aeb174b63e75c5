"""A message as log lines and measurements name it.

Invariant: reads headers that may be anything, and never fails.
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
