"""The cutting of values in a table, how long they are kept, and how many a message may have: arithmetic on values.

Invariant: no I/O; a value outlives every wait of its message that the sender asked for.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from rowbus.errors import Unrecoverable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PART: Final = 4 * 1024 * 1024
"""Bytes of a row: what a server or a driver holds several times over at a time."""

_NONE: Final = timedelta(0)
_LONGEST: Final = timedelta(days=365_000)


class Room:
    """The room that a message has for its values: one that is used in several places takes it several times."""

    def __init__(self, most: int, uses: Mapping[str, int]) -> None:
        """Have room for so many bytes, of values under these keys, each used so often."""
        self._left = self._most = most
        self._uses = uses

    def take(self, key: str, size: int) -> None:
        """Take the room for a value; raises Unrecoverable when there is too little."""
        self._left -= size * self._uses[key]
        if self._left < 0:
            raise Unrecoverable(
                f"The values that the message keeps elsewhere have more than the {self._most:,} bytes that it has room "
                "for, and were not read. Raise EndpointSettings(max_message_size=…), which counts them, and have the "
                "message tried again: rowbus errors retry."
            )


def parts_of(content: bytes, size: int = PART) -> Iterator[bytes]:
    """Cut a value into parts, at least one."""
    for start in range(0, max(len(content), 1), size):
        yield content[start : start + size]


def time_to_keep(
    keep_for: timedelta,
    *,
    due: timedelta | datetime | None,
    time_to_be_received: timedelta | None,
    now: datetime,
) -> timedelta:
    """Return how long from now a value is to be kept whose message is due then, and may be received for so long."""
    delay = due - now if isinstance(due, datetime) else due
    waits = (max(delay or _NONE, _NONE), max(time_to_be_received or _NONE, _NONE))
    total = keep_for
    for wait in waits:
        total = _LONGEST if wait > _LONGEST - min(total, _LONGEST) else total + wait
    return min(total, _LONGEST)
