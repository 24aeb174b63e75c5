"""Keepers of tables of facts: they delete, once a minute, what is older than it may be.

Invariant: a keeper waits for no lock: it passes over rows that another one deletes, a batch a transaction.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

from rowbus.running.critical import ReportedBreaker
from rowbus.running.service import Periodic

if TYPE_CHECKING:
    import logging

    from rowbus.database.sessions import SessionPool
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.running.critical import Alarm

INTERVAL: Final = 60.0  # seconds, give or take a fifth, between two looks


class RecordKeeper(Periodic):
    """Keeps one table within its time. For one event loop."""

    what: ClassVar[str]
    """What it forgets."""

    logger: ClassVar[logging.Logger]

    def __init__(
        self, pool: SessionPool, address: QueueAddress, alarm: Alarm, *, interval: float = INTERVAL
    ) -> None:
        """Look after a table, and first at the start. No I/O."""
        activity = f"Forgetting old {self.what} of {address}"
        failure = f"Could not forget old {self.what} of {address}"
        outages = ReportedBreaker(activity, failure, self.logger, alarm)
        super().__init__(f"rowbus {address} keeper", outages, interval, at_once=True)
        self._pool = pool
        self._address = address

    @abstractmethod
    def purge(self) -> Statement[int]:
        """Return the statement that deletes one batch, and says how many rows."""

    async def forget(self) -> int:
        """Forget all that is too old; return how many rows that were. Raises StorageError."""
        total = 0
        async with self._pool.session() as session:
            while forgotten := await session.run(self.purge()):
                total += forgotten
        return total

    async def do(self) -> None:
        """Forget, and log how many rows."""
        if forgotten := await self.forget():
            self.logger.debug("Forgot %s old %s of %s", forgotten, self.what, self._address)
