"""The places of an endpoint's keys: who takes one has its message in hand, and nobody else does more than are left.

A place is an advisory lock of the transaction in which the message is received: it is free when that ends, however it
ends (docs/decisions/0044-a-place-is-a-lock.md). Two keys may share a lock, by the hash of their names: then fewer of
them are in hand at a time, and never more.

Invariant: nobody waits for a place on a session: a message without one waits in a table, or where it is.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.statements import Rows, Statement, load
from rowbus.transport.limits.returns import Returns

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.database.steps import Runs
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow
    from rowbus.transport.limits.concurrency import CrowdedMessage

FindPlaces = Callable[["MessageRow", "Runs"], Awaitable["CrowdedMessage | None"]]
"""Says which places a message needs; None for one that needs none."""

MOST_AT_ONCE: Final = 20
"""Messages that a slot receives together: each may take a lock, of which the server has a few thousand."""


class Wait(NamedTuple):
    """For what key a message waits, and in how many seconds it comes again."""

    key: str
    seconds: float


class PlaceKeeper:
    """The places of one endpoint in one process. For one event loop."""

    def __init__(
        self, queue: QueueAddress, find: FindPlaces, clock: Callable[[], Statement[datetime]]
    ) -> None:
        """Take the queue whose instances share places, and what finds those of a message. No I/O.

        `clock` asks the database what time it is.
        """
        self.clock = clock
        self._queue = queue
        self._find = find
        self._returns = Returns(time.monotonic)

    async def take(
        self, rows: Sequence[MessageRow], session: Runs, *, keeps_place: bool
    ) -> Mapping[MessageRow, Wait]:
        """Take places for messages that were received in the session's transaction; return those that have none.

        A key's messages share one place: they are handled one after the other. `keeps_place` says that messages wait
        where they are, so that each may have waited before. Waits for no lock. Raises StorageError.
        """
        found = [await self._find(row, session) for row in rows]
        crowded = [each for each in found if each is not None]
        if not crowded:
            return {}
        full = await session.run(
            self._take({place.key: place.most for each in crowded for place in each.places})
        )
        waited = {place.key for each in crowded if each.waited or keeps_place for place in each.places}
        for key in waited:
            (self._returns.lacked if key in full else self._returns.found)(key)
        lacking = ((each.row, [place.key for place in each.places if place.key in full]) for each in crowded)
        return {
            row: max(map(self._wait, keys), key=lambda wait: wait.seconds) for row, keys in lacking if keys
        }

    def _wait(self, key: str) -> Wait:
        return Wait(key, self._returns.wait(key))

    def _take(self, wanted: Mapping[str, int]) -> Statement[frozenset[str]]:
        failing = f"Failed to take places of messages of {self._queue}"
        query = load("transport/limits/sql/postgresql/take_places.sql", failing=failing)
        parameters = {"keys": list(wanted), "numbers": list(wanted.values()), "queue": str(self._queue)}
        return Statement(query, parameters, _keys)


def _keys(rows: Rows, _count: int) -> frozenset[str]:
    return frozenset(key for (key,) in rows)
