"""The database's time, told by the local clock: the difference is measured now and then.

Hosts whose clocks differ must agree on when a message is due; asking the server each time would be a round trip.

Invariant: no further off than half the round trip of the last measurement, and what two clocks drift apart since then.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rowbus.errors import RowbusError
from rowbus.tables import catalog

if TYPE_CHECKING:
    from rowbus.database.postgresql.database import SessionPool

logger = logging.getLogger("rowbus.delayed")

MEASURED_EVERY = 60.0  # seconds


class DatabaseClock:
    """Tells the time of one database's server."""

    def __init__(self, pool: SessionPool) -> None:
        """Go by the local clock until the first measurement. No I/O."""
        self._pool = pool
        self._ahead = timedelta(0)
        self._measured_at: float | None = None

    def now(self) -> datetime:
        """Return the server's time, aware, in UTC."""
        return datetime.now(UTC) + self._ahead

    async def measure(self) -> None:
        """Ask the server for its time, if that was long ago; a server that is away leaves the clock as it was."""
        if self._measured_at is not None and time.monotonic() < self._measured_at + MEASURED_EVERY:
            return
        try:
            async with self._pool.session() as session:
                before = datetime.now(UTC)
                there = await session.run(catalog.clock())
                after = datetime.now(UTC)
        except RowbusError as error:
            logger.debug("The database's clock could not be read: %s", error)
            return
        self._ahead = there - (before + (after - before) / 2)
        self._measured_at = time.monotonic()
