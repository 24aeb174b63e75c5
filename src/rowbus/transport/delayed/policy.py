"""Where due messages go, and when their mover looks again: the decisions of moving, as arithmetic on values.

A delayed message names its destination in a header of the transport's own (docs/wire-format.md#delayed-table), of which
other software is not to know. We find it in the raw header text and have the database cut it out, so that neither
headers nor bodies are rewritten here: quotes inside JSON strings are escaped, so the name between plain quotes is the
header, never a value and never the end of another name.

Invariant: pure; and `route` has an answer to every header text: None sends the message the way NServiceBus's movers
send all messages, through the endpoint's own queue.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import InvalidAddressError
from rowbus.messages.headers import Header
from rowbus.running.backoff import LookPauses, doubling
from rowbus.running.bounded import LONGEST_REMEMBERED, MOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rowbus.messages.address import QueueAddress


class DueMessage(NamedTuple):
    """A message locked by this transaction, to be moved: the row's id, the raw header text.

    `moment` is when it became due, in microseconds since 1970, where that was asked for.
    """

    id: str
    headers: str
    moment: int = 0


class PassedOver(NamedTuple):
    """The end of the messages that are passed over: all that became due before a moment, and these at that moment."""

    moment: int
    ids: tuple[str, ...]


_MARK: Final = re.compile(
    rf',?(?<!\\)"{re.escape(Header.FORWARD_DESTINATION)}"\s*:\s*(?P<value>"(?:[^"\\]|\\.)*")', re.DOTALL
)
SHORTEST_PAUSE = 0.001  # seconds; a message due sooner is waited for that long
FIRST_OVERDUE_PAUSE = 0.01  # seconds; doubled for each look in vain
FIRST_WAIT: Final = 1.0  # seconds until what could not be moved is tried again; doubled each time
LONGEST_WAIT: Final = 30.0
MOST_AT_ONCE: Final = 1_000  # messages of one moment that are passed over by their ids
SAME_MOMENT: Final = 20_000  # microseconds: SQL Server's times, and texts of them, are rounded


class Route(NamedTuple):
    """The queue a delayed message is for, and the header text that says so, to be cut out."""

    destination: QueueAddress
    mark: str


def route(headers: str, table: QueueAddress) -> Route | None:
    """Find where a message of a table goes in its raw header text; None when it does not say so, or not legibly."""
    return _route(headers, _reader(table))


def by_route(messages: Iterable[DueMessage], table: QueueAddress) -> dict[Route | None, list[str]]:
    """Group the ids of a table's messages by where they go, keeping the order within each."""
    groups: dict[Route | None, list[str]] = {}
    read = _reader(table)
    for message in messages:
        groups.setdefault(_route(message.headers, read), []).append(message.id)
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


def behind(place: PassedOver | None, stuck: Sequence[DueMessage]) -> PassedOver:
    """Return how far those go that are passed over, when these, in the order of their time, are so from now on, too.

    Of a moment at which very many became due, all are passed over.
    """
    last = stuck[-1].moment
    ids = tuple(message.id for message in stuck if message.moment >= last - SAME_MOMENT)
    if place is not None and place.moment >= last - SAME_MOMENT:
        ids = (*place.ids, *ids)
    return PassedOver(last, ids) if len(ids) <= MOST_AT_ONCE else PassedOver(last + 2 * SAME_MOMENT, ())


class StuckMessages:
    """Messages that cannot be moved stand before none that can: they are passed over, and tried again ever later.

    Messages are tried again from the first on, batch by batch, and between two batches others are moved. What another
    mover had in its hands when it was passed, and what was stored for a time already passed, is met then.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Know of none; `clock` counts seconds."""
        self._clock = clock
        self._again: PassedOver | None = None
        self._goes_on = False
        self._times = 0
        self._until = 0.0
        self.place: PassedOver | None = None
        """The end of them; None: there are none."""

    def met(self, stuck: Sequence[DueMessage]) -> None:
        """Note messages that cannot be moved, among those behind the place."""
        if self.place is None:
            self._rest()
        self.place = behind(self.place, stuck)

    @property
    def is_to_be_tried(self) -> bool:
        """Whether a batch of them is to be tried again now."""
        return self.place is not None and (self._goes_on or self._clock() >= self._until)

    @property
    def next_batch(self) -> PassedOver | None:
        """Where the batch to be tried begins; None: with the first."""
        return self._again

    def tried(self, stuck: Sequence[DueMessage], *, is_last: bool) -> None:
        """Note which of the batch still cannot be moved; `is_last`: no other messages are due behind it."""
        if stuck:
            self._again = behind(self._again, stuck)
        self._goes_on = not is_last
        if is_last:
            self.place, self._again = self._again, None
            if self.place is None:
                self._times = 0
            else:
                self._rest()

    def pause(self) -> float:
        """Return the seconds until the next batch is to be tried."""
        return 0.0 if self._goes_on else max(0.0, self._until - self._clock())

    def _rest(self) -> None:
        self._times += 1
        self._until = self._clock() + doubling(self._times, first=FIRST_WAIT, most=LONGEST_WAIT)


class Pauses:
    """Return a mover's sleep. What is overdue and cannot be had is in another mover's hands, or cannot be moved."""

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
