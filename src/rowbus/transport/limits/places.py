"""The places of an endpoint's keys: who takes one has its message in hand, and nobody else does more than are left.

A place is an advisory lock of the transaction in which the message is received: it is free when that ends, however it
ends (docs/decisions/0044-a-place-is-a-lock.md). Two keys may share a lock, by the hash of their names: then fewer of
them are in hand at a time, and never more.

A key has a line, in which messages that found no place come again one pace apart. The pace is found by trying: it
doubles when one that waited finds no place, and halves when it finds one. So about every second one that comes again is
handled, however long handlers take and however many processes there are, and no place stays free for long.

Invariants: nobody waits for a place on a session: a message without one waits in a table, or where it is. Lines are
pure bookkeeping: the pace is always `SHORTEST` or `LONGEST` or between them; only lines that are in use are remembered.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.statements import Rows, Statement, load

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.database.sessions import AsyncSession
    from rowbus.database.statements import Runs
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow
    from rowbus.transport.limits.concurrency import CrowdedMessage

MOST_AT_ONCE: Final = 50
"""Messages that a slot receives together: each may take a lock, and the server has room for 64 of each session."""

SHORTEST: Final = 0.001
LONGEST: Final = 1.0
"""Seconds between two of a key that come again in one process."""
HELD: Final = 0.01
"""Seconds between two of a paused key that come again in one process: so they come back, too, once it is resumed."""
HELD_FOR: Final = 1.0
"""Seconds for which one of a paused key waits, at least."""
FARTHEST: Final = 600.0
"""Seconds for which a message waits, at most, until its limit is looked at again."""
KEPT: Final = 10_000
"""Lines that are remembered."""

FindPlaces = Callable[["MessageRow", "Runs"], Awaitable["CrowdedMessage | None"]]
"""Says which places a message needs; None for one that needs none."""


class Wait(NamedTuple):
    """For what key a message waits, and in how many seconds it comes again."""

    key: str
    seconds: float


class Line:
    """The line of one key."""

    pace: float = SHORTEST
    ends: float = 0.0


class Returns:
    """The lines of one process; `clock` counts seconds and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin with none."""
        self._clock = clock
        self._lines: dict[str, Line] = {}

    def found(self, key: str) -> None:
        """Note that one that had waited found a place."""
        if (line := self._lines.get(key)) is not None:
            line.pace = max(line.pace / 2, SHORTEST)

    def lacked(self, key: str) -> None:
        """Note that one that had waited found none."""
        line = self._line(key)
        line.pace = min(line.pace * 2, LONGEST)

    def wait(self, key: str) -> float:
        """Join the line; return in how many seconds to come again."""
        line = self._line(key)
        return self._join(line, line.pace, 0.0)

    def hold(self, key: str) -> float:
        """Join the line of a key that is paused; return in how many seconds to come again."""
        return self._join(self._line(key), HELD, HELD_FOR)

    def _join(self, line: Line, pace: float, least: float) -> float:
        now = self._clock()
        line.ends = min(max(line.ends + pace, now + least + pace), now + FARTHEST)
        return line.ends - now

    def _line(self, key: str) -> Line:
        line = self._lines.pop(key, None) or Line()
        self._lines[key] = line  # the last used is the last to be forgotten
        if len(self._lines) > KEPT:
            del self._lines[next(iter(self._lines))]
        return line


class PlaceKeeper:
    """The places of one endpoint in one process. For one event loop."""

    def __init__(
        self,
        queue: QueueAddress,
        find: FindPlaces,
        clock: Callable[[], Statement[datetime]],
        *,
        has_keys: bool = True,
        is_asked: Callable[[], object] = lambda: True,
    ) -> None:
        """Take the queue whose instances share places, and what finds those of a message. No I/O.

        `clock` asks the database what time it is. `has_keys` says whether each message may have a key of its own, and
        `is_asked` whether any message has one now.
        """
        self.clock = clock
        self.most_at_once = MOST_AT_ONCE if has_keys else None
        self.is_asked = is_asked
        self._queue = queue
        self._find = find
        self._returns = Returns(time.monotonic)

    async def take(
        self, rows: Sequence[MessageRow], session: AsyncSession, *, keeps_place: bool
    ) -> Mapping[MessageRow, Wait]:
        """Take places for messages that were received in the session's transaction; return those that have none.

        A key's messages share one place: they are handled one after the other. `keeps_place` says that messages wait
        where they are, so that each may have waited before. Waits for no lock. Raises StorageError.
        """
        found = [await self._find(row, session) for row in rows]
        crowded = [each for each in found if each is not None]
        if not crowded:
            return {}
        wanted = {place.key: place.most for each in crowded for place in each.places}
        (full,) = await session.run_together([self._take(wanted)])  # no cursor, which takes as long again
        waited = {place.key for each in crowded if each.waited or keeps_place for place in each.places}
        for key in waited:
            (self._returns.lacked if key in full else self._returns.found)(key)
        lacking = ((each.row, [place.key for place in each.places if place.key in full]) for each in crowded)
        return {
            row: max((self._wait(key, wanted[key]) for key in keys), key=lambda wait: wait.seconds)
            for row, keys in lacking
            if keys
        }

    def _wait(self, key: str, most: int) -> Wait:
        return Wait(key, self._returns.wait(key) if most else self._returns.hold(key))

    def _take(self, wanted: Mapping[str, int]) -> Statement[frozenset[str]]:
        failing = f"Failed to take places of messages of {self._queue}"
        query = load("transport/limits/sql/postgresql/take_places.sql", failing=failing)
        # as text, where the driver looks at each element of a list; keys are printable
        parameters = {
            "keys": "\n".join(wanted),
            "numbers": f"{{{','.join(map(str, wanted.values()))}}}",
            "queue": str(self._queue),
        }
        return Statement(query, parameters, _keys)


def _keys(rows: Rows, _count: int) -> frozenset[str]:
    return frozenset(key for (key,) in rows)
