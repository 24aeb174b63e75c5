"""The places of an endpoint's keys: who takes one has its message in hand, and nobody else does more than are left.

A place is an advisory lock of the transaction in which the message is received: it is free when that ends, however it
ends (docs/decisions/0044-a-place-is-a-lock.md). Two keys may share a lock, by the hash of their names: then fewer of
them are in hand at a time, and never more.

The key is in the body, which only the reader of its handler reads. Where a field of a JSON body has it, the database
guesses the key as it receives, and takes the place in the same statement: this spares a round trip if it is right.

A key has a line, in which messages that found no place come again one pace apart. The pace is found by trying: it
doubles when one that waited finds no place, and halves when it finds one. So about every second one that comes again is
handled, however long handlers take and however many processes there are, and no place stays free for long.

Invariants: nobody waits for a place on a session: a message without one waits in a table, or where it is. Lines are
pure bookkeeping: the pace is always `SHORTEST` or `LONGEST` or between them; only lines that are in use are remembered.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.statements import Rows, Statement, load, load_upon

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.database.sessions import AsyncSession
    from rowbus.database.statements import Query, Runs
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow, ReadMessage
    from rowbus.transport.limits.concurrency import Concurrency, CrowdedMessage, Places
    from rowbus.transport.queues.table import QueueTable

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
QUEUES_KEPT: Final = 1024
"""Queues whose statement is remembered."""

FindPlaces = Callable[["Sequence[MessageRow]", "Runs"], Awaitable["list[CrowdedMessage]"]]
"""Returns those of some messages that need places, with these."""


class Guess(NamedTuple):
    """A limit whose keys the database may guess: the name of its type, what stands before a key, and its places."""

    name: str
    field: str
    most: int

    @classmethod
    def of(cls, name: str, limit: Concurrency) -> Guess | None:
        """Return how to guess the keys of a limit; None where that cannot be done, as with those of a function."""
        field = "" if limit.by is None else f'"{limit.by}":'
        can_be_guessed = not callable(limit.by) and f"{name}{field}".isprintable()
        return cls(name, field, limit.most) if can_be_guessed else None


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
        guesses: Sequence[Guess] = (),
        *,
        has_keys: bool = True,
        said: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Take the queue whose instances share places, and what finds those of a message. No I/O.

        `clock` asks the database what time it is, which takes places by `guesses` as it receives. `has_keys` says
        whether each message may have a key of its own, and `said` what operators say now of each type.
        """
        self.clock = clock
        self.most_at_once = MOST_AT_ONCE if has_keys else None
        self.has_keys = has_keys
        self.said = said
        self._queue = queue
        self._find = find
        self._returns = Returns(time.monotonic)
        self.guesses = tuple(guesses)

    def receive(
        self, table: QueueTable, most: int, lower_bound: int, *, most_bytes: int, passed_over: Sequence[int]
    ) -> Statement[list[MessageRow]]:
        """Take messages of one of the endpoint's queues as its table does, and places of keys by `guesses`."""
        plain = table.receive(most, lower_bound, most_bytes=most_bytes, passed_over=passed_over)
        operation = "receive_batch" if "batch_size" in plain.parameters else "receive"
        return plain._replace(query=load_with_guesses(table.address, operation, self._queue, self.guesses))

    async def take(
        self,
        rows: Sequence[MessageRow],
        session: AsyncSession,
        note: Callable[[ReadMessage], object],
        *,
        keeps_place: bool,
    ) -> Mapping[MessageRow, Wait]:
        """Take places for messages that were received in the session's transaction; return those that have none.

        A key's messages share one place: they are handled one after the other. What was read of messages is given to
        `note`. `keeps_place` says that messages wait where they are, so that each may have waited before. Waits for no
        lock. Raises StorageError.
        """
        crowded = await self._find(rows, session)
        wanted = {place.key: place.most for each in crowded for place in each.places}
        for row in rows:
            wanted.pop(row.place or "", None)
        full = await self._full(wanted, session)
        for key in {place.key for each in crowded if each.waited or keeps_place for place in each.places}:
            (self._returns.lacked if key in full else self._returns.found)(key)
        for each in crowded:
            note(each.read)
        return self._waits(crowded, full) if full else {}

    async def _full(self, wanted: Mapping[str, int], session: AsyncSession) -> frozenset[str]:
        """Take a place of each key; return those that have none."""
        if not wanted:
            return frozenset()
        (full,) = await session.run_together([self._take(wanted)])  # no cursor, which takes as long again
        return full

    def _waits(self, crowded: Sequence[CrowdedMessage], full: frozenset[str]) -> Mapping[MessageRow, Wait]:
        lacking = ((each.read.row, [place for place in each.places if place.key in full]) for each in crowded)
        return {
            row: max(map(self._wait, places), key=attrgetter("seconds")) for row, places in lacking if places
        }

    def _wait(self, place: Places) -> Wait:
        return Wait(place.key, (self._returns.wait if place.most else self._returns.hold)(place.key))

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


@lru_cache(maxsize=QUEUES_KEPT)
def load_with_guesses(
    queue: QueueAddress, operation: str, endpoint: QueueAddress, guesses: tuple[Guess, ...]
) -> Query:
    """Return what receives as the operation of a queue does, and takes places of keys that can be guessed."""
    names, fields, numbers = (list(column) for column in zip(*guesses, strict=True))
    query = load_upon(
        f"transport/queues/sql/postgresql/{operation}.sql",
        "transport/limits/sql/postgresql/guess_places.sql",
        {"schema": queue.schema, "queue": queue.table},
        {"endpoint": str(endpoint), "names": names, "fields": fields, "numbers": numbers},
        failing=f"Failed to receive from {queue}",
        queue=str(queue),
    )
    return query._replace(by_index=True)


def _keys(rows: Rows, _count: int) -> frozenset[str]:
    return frozenset(key for (key,) in rows)
