"""The hold on somebody's work: whether an operator has paused it, asked about once a second.

Invariant: nothing is asked while there is nothing to do, and a statement more a second otherwise; a table that is
missing, or that the role may not read, pauses nothing.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from rowbus.database.statements import BlockingSession, run_now
from rowbus.transport.pauses.table import pauses_table
from rowbus.transport.queues.catalog.looking import is_there
from rowbus.transport.queues.installer import make_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from rowbus.database.sessions import AsyncSession, Session
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.pauses.table import PauseSubject

logger = logging.getLogger("rowbus.receiving")

PERIOD: Final = 1.0  # seconds between two questions


def pause_now(
    session: Session,
    address: QueueAddress,
    what: PauseSubject,
    *,
    person: str,
    why: str,
    until: datetime | None,
) -> int:
    """Pause something; create the table if it is missing. Raises StorageError, ConfigurationError, NotLookedAtError."""
    table = pauses_table(address)
    if not is_there(session, table):
        run_now(make_table(BlockingSession(session), table))
    return session.run(table.pause(what, person=person, why=why, until=until))


class Hold:
    """Knows which of some names are paused. For one event loop."""

    def __init__(
        self,
        address: QueueAddress,
        names: Sequence[PauseSubject],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the table and the names to ask for. No I/O."""
        self._table = pauses_table(address) if address.backend == "postgresql" else None
        self._names = names
        self._clock = clock
        self._asked = float("-inf")
        self._held: list[PauseSubject] = []

    @property
    def is_due(self) -> bool:
        """Whether it is time to ask, or to wait."""
        return self._table is not None and (bool(self._held) or self._clock() - self._asked >= PERIOD)

    async def ask(self, session: AsyncSession) -> Sequence[PauseSubject]:
        """Return what is paused, asking if it is time; in a transaction of its own. Raises StorageError."""
        if self._table is None or self._clock() - self._asked < PERIOD:
            return self._held
        self._asked = self._clock()
        readable = await session.run(self._table.can_be_read())
        self._note(await session.run(self._table.holds(self._names)) if readable else [])
        return self._held

    async def wait(
        self, session: AsyncSession, pause: Callable[[float], Awaitable[None]], ended: Callable[[], bool]
    ) -> bool:
        """Wait until nothing is paused; say whether to go on, false when it `ended` meanwhile."""
        while await self.ask(session):
            await pause(PERIOD)
            if ended():
                return False
        return True

    def _note(self, held: list[PauseSubject]) -> None:
        for one in held:
            if one not in self._held:
                logger.warning("The %s %s is paused, by an operator.", *one)
        for one in self._held:
            if one not in held:
                logger.info("The %s %s is resumed.", *one)
        self._held = held
