r"""Where due messages go, and when their mover looks again: the decisions of moving, as arithmetic on values.

A delayed message names its destination in a header of the transport's own (docs/wire-format.md#delayed-table), of which
other software is not to know. We find it in the raw header text and have the database cut it out, so that neither
headers nor bodies are rewritten here: quotes inside JSON strings are escaped, so the name between plain quotes is the
header, never a value and never the end of another name.

Invariant: pure; and `route` has an answer to every header text: None sends the message the way
NServiceBus's movers send all messages, through the endpoint's own queue.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import InvalidAddressError
from rowbus.messages.headers import Header
from rowbus.running.backoff import doubling
from rowbus.running.bounded import LONGEST_REMEMBERED, MOST
from rowbus.running.looks import LookPauses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import OutgoingMessage

_MARK: Final = re.compile(
    rf',?(?<!\\)"{re.escape(Header.FORWARD_DESTINATION)}"\s*:\s*(?P<value>"(?:[^"\\]|\\.)*")', re.DOTALL
)
SHORTEST_PAUSE = 0.001  # seconds; a message due sooner is waited for that long
FIRST_OVERDUE_PAUSE = 0.01  # seconds; doubled for each look in vain


class Route(NamedTuple):
    """The queue a delayed message is for, and the header text that says so, to be cut out."""

    destination: QueueAddress
    mark: str


def marked(message: OutgoingMessage, destination: QueueAddress) -> OutgoingMessage:
    """Return a message as it waits in a table of delayed messages: with the header that says where it goes."""
    headers: Mapping[str, str | None] = {**message.headers, Header.FORWARD_DESTINATION: destination.canonical}
    return message._replace(headers=headers)


def route(headers: str, table: QueueAddress) -> Route | None:
    """Find where a message of a table goes in its raw header text; None when it does not say so, or not legibly."""
    return _route(headers, _reader(table))


def by_route(messages: Iterable[tuple[str, str]], table: QueueAddress) -> dict[Route | None, list[str]]:
    """Group the ids of a table's (id, headers) by where they go, keeping the order within each."""
    groups: dict[Route | None, list[str]] = {}
    read = _reader(table)
    for row_id, headers in messages:
        groups.setdefault(_route(headers, read), []).append(row_id)
    return groups


def _route(headers: str, read: Callable[[str], QueueAddress | None]) -> Route | None:
    found = _MARK.search(headers)
    if found is None:
        return None
    destination = read(found["value"])
    if destination is None:
        return None
    mark = found[0]
    return Route(destination, mark if mark.startswith(",") else "")


@lru_cache(maxsize=64)
def _reader(table: QueueAddress) -> Callable[[str], QueueAddress | None]:
    """Return what reads an address, in quotes, as the database of a table means it, and remembers it."""

    def read(quoted: str) -> QueueAddress | None:
        try:
            return table.neighbour(json.loads(quoted))
        except (ValueError, InvalidAddressError):
            return None

    remembered = lru_cache(maxsize=MOST)(read)
    return lambda quoted: remembered(quoted) if len(quoted) <= LONGEST_REMEMBERED else read(quoted)


class Pauses:
    """How long a mover may sleep. What is overdue and cannot be had is in another mover's hands, or cannot be moved."""

    def __init__(self, longest: float) -> None:
        """Look at least every `longest` seconds, and more often for a while after something was moved."""
        self._longest = longest
        self._looks = LookPauses(longest)
        self._in_vain = 0

    def after(self, moved: int, next_due: float | None) -> float:
        """Say how long to sleep after so many were moved, when the next is due in so many seconds (None: none is)."""
        overdue = next_due is not None and next_due <= 0
        if not overdue or moved:
            self._in_vain = 0
        if moved:
            self._looks.worked()
        if next_due is None:
            return self._looks.following()
        if not overdue:
            return min(max(next_due, SHORTEST_PAUSE), self._looks.following())
        if moved:
            return 0.0
        self._in_vain += 1
        return doubling(self._in_vain, first=FIRST_OVERDUE_PAUSE, most=self._longest)
