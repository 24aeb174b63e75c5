"""The database's time, told by the local clock: the difference is measured now and then.

Hosts whose clocks differ must agree on when a message is due; asking the server each time would be a round trip. The
server reads its clock at some moment between the question and the answer, so the difference is known to lie between
two bounds: `reached` goes by the lower and `reaching` by the upper one.

Invariant: `reached() <= the server's time <= reaching()`, but for what the two clocks drift apart in a minute; so a
message that is due `reaching() + delay` is due after the delay at least, and due, when `reached()` says so.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from rowbus.errors import RowbusError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.database.sessions import AsyncSession, SessionPool
    from rowbus.transport.queues.catalog.table import Catalog

logger = logging.getLogger("rowbus.delaying")

MEASURED_EVERY = 60.0  # seconds
SAMPLES = 3  # the best bounds of so many: one that waited for a processor says little


class _Bounds(NamedTuple):
    """The server's time when the local clock stood at 0, at least and at most; `at` is when that was found out."""

    least: datetime
    most: datetime
    at: float | None


class DatabaseClock:
    """Tells the time of one database's server."""

    def __init__(
        self, pool: SessionPool, catalog: Catalog, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Go by the local time of day until the first measurement. No I/O."""
        self._pool = pool
        self._catalog = catalog
        self._clock = clock
        started = datetime.now(UTC) - timedelta(seconds=clock())
        self._bounds = _Bounds(started, started, None)

    def reached(self) -> datetime:
        """Return a time that the server's clock has reached, as late as is sure; aware, in UTC."""
        return self._bounds.least + timedelta(seconds=self._clock())

    def reaching(self) -> datetime:
        """Return a time that the server's clock has not passed, as early as is sure; aware, in UTC."""
        return self._bounds.most + timedelta(seconds=self._clock())

    async def measure(self) -> None:
        """Ask the server for its time, if that was long ago; a server that is away leaves the clock as it was."""
        measured = self._bounds.at
        if measured is not None and self._clock() < measured + MEASURED_EVERY:
            return
        try:
            async with self._pool.session() as session:
                samples = [await self._sample(session) for _ in range(SAMPLES)]
        except RowbusError as error:
            logger.debug("The database's clock could not be read: %s", error)
            return
        least, most = max(least for least, _ in samples), min(most for _, most in samples)
        self._bounds = _Bounds(least, max(least, most), self._clock())

    async def _sample(self, session: AsyncSession) -> tuple[datetime, datetime]:
        before = self._clock()
        there = await session.run(self._catalog.clock())
        after = self._clock()
        return there - timedelta(seconds=after), there - timedelta(seconds=before)
