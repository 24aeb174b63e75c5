"""The indexes of error queues that a site keeps, and the tasks that fill them.

Invariant: a request waits for an index a fraction of a second at most; one task at a time fills an index.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from rowbus.errors import RowbusError
from rowbus.running.bounded import Bounded
from rowbus.transport.queues.catalog.looking import looking
from rowbus.transport.recoverability.failures.index import FailureIndex

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.web.sampling.snapshot import QueueFigures
    from rowbus.web.site import Site
    from rowbus.web.visit import Visit

MOST_QUEUES: Final = 10
"""Error queues whose indexes are kept; the one that was opened first goes first."""

FRESH: Final = 1.0  # seconds for which an index is shown as it is
PATIENCE: Final = 0.15  # seconds that a request reads for
STEP: Final = 0.5  # seconds that the task reads for at a time
COUNTED: Final = 10.0  # seconds for which the groups of a short queue are not counted again
OLD: Final = 60.0  # seconds after which what an index has is not told any more

_sites: WeakKeyDictionary[Site, Indexes] = WeakKeyDictionary()


class Indexes:
    """The indexes of one site."""

    def __init__(self) -> None:
        """Begin without any."""
        self._kept: dict[QueueAddress, FailureIndex] = Bounded(MOST_QUEUES)
        self._filling: dict[QueueAddress, asyncio.Task[None]] = {}

    async def fresh(self, visit: Visit, queue: QueueAddress) -> FailureIndex:
        """Return the index of an error queue: of now, or while it is filled, of what has been read so far.

        Raises QueueNotFoundError, StorageError.
        """
        index = self._kept.get(queue) or FailureIndex(queue)
        if queue in self._filling and index.unread:
            return index
        if index.refreshed_at is None or time.monotonic() - index.refreshed_at > FRESH:
            await visit.read(_refresh, index, PATIENCE)
            self._kept[queue] = index
        if index.unread and queue not in self._filling:
            self._start(visit.site, index)
        return index

    def groups(self, site: Site, queue: QueueFigures) -> int | None:
        """Say how many groups of failures a queue has, if it was read lately; waits for nothing.

        A queue that is short enough to be counted is read in the background; a longer one when a visitor opens it.
        """
        index = self._kept.get(queue.address) or FailureIndex(queue.address)
        age = float("inf") if index.refreshed_at is None else time.monotonic() - index.refreshed_at
        is_short = queue.shape.readable and queue.is_exact
        if is_short and age > COUNTED and queue.address not in self._filling:
            self._kept[queue.address] = index
            self._start(site, index)
        return None if age > OLD or index.unread else len({failure.kind for failure in index.failures})

    def acknowledgements(self, address: QueueAddress) -> int:
        """Say how many messages of a queue are no failures but acknowledgements, as far as it was read."""
        index = self._kept.get(address)
        return 0 if index is None else index.acknowledgements

    def _start(self, site: Site, index: FailureIndex) -> None:
        task = asyncio.create_task(self._fill(site, index), name=f"rowbus web: index of {index.address}")
        self._filling[index.address] = task

    async def _fill(self, site: Site, index: FailureIndex) -> None:
        try:
            await site.read(_refresh, index, STEP)
            while index.unread:
                await site.read(_refresh, index, STEP)
        except RowbusError:
            return  # the next request finds what is wrong, and says so
        finally:
            del self._filling[index.address]


def indexes(site: Site) -> Indexes:
    """Return the indexes of a site."""
    return _sites.setdefault(site, Indexes())


def _refresh(session: Session, index: FailureIndex, seconds: float) -> None:
    with looking(session, index.address):
        index.refresh(session, seconds=seconds)
