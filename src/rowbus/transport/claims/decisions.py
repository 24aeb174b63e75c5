"""How values in a table are cut, and how long they are kept: arithmetic on values.

Invariant: pure; a value outlives every wait of its message that the sender asked for.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PART: Final = 4 * 1024 * 1024
"""Bytes of a row: what a server or a driver holds several times over at a time."""

_NONE: Final = timedelta(0)
_LONGEST: Final = timedelta(days=365_000)


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
