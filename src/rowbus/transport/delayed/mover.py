"""Moves messages from a table of delayed messages to their queues when they are due.

One mover of a table leads, by a lock of its session; others stand by and take over within seconds. NServiceBus's movers
know no such lock and may work beside it: all take rows under locks, so that none moves a message twice. The leader
sleeps until the next message is due, or until it hears that one was stored that is due soon.

Invariant: a message is moved only when the database's clock says that it is due, in one transaction, and what the
mover holds is free at once when its session ends.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rowbus.database.locks.holders import name_holders
from rowbus.running.reported_breaker import ReportedBreaker
from rowbus.running.service import ElectedService, Election
from rowbus.running.waiting import pause_unless_notified
from rowbus.transport.delayed.moves import DueMoves
from rowbus.transport.delayed.policy import Pauses
from rowbus.transport.delayed.table import delayed_table

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.messages.address import QueueAddress
    from rowbus.running.reported_breaker import Alarm
    from rowbus.settings import NativeDelayedDelivery
    from rowbus.transport.delayed.moves import Fallback
    from rowbus.transport.delayed.table import DelayedTable

logger = logging.getLogger("rowbus.delaying")

LOCK_TIMEOUT = 5.0  # seconds that a locked queue may hold up the others
FAILED = "Failed to move matured delayed messages to input queue"


class MoverService(ElectedService["AsyncSession"]):
    """Leads or stands by, from `start` to `stop`, which finishes the batch in hand. For one event loop."""

    def __init__(
        self,
        database: Database,
        address: QueueAddress,
        fallback: Fallback,
        settings: NativeDelayedDelivery,
        alarm: Alarm,
        *,
        notifications: bool = True,
    ) -> None:
        """Take the table whose messages to move. No I/O.

        Without `notifications`, behind a pooler, a session's lock means nothing either: then every mover works, and
        looks as often as the settings say.
        """
        outages = ReportedBreaker("Moving delayed messages", f"{FAILED}: {address}", logger, alarm)
        super().__init__(f"rowbus {address} mover", outages)
        self._database = database
        self._table = delayed_table(address)
        self._settings = settings
        self._moves = DueMoves(self._table, fallback, settings.batch_size, notify=notifications)
        self._has_session = notifications

    async def open(self) -> AsyncSession:
        """Open the session that moves."""
        return await open_session(self._database, self._table, configured=self._has_session)

    def election(self, session: AsyncSession) -> Election | None:
        """Return the election of the one mover of the table."""
        if not self._has_session:
            return None
        return Election(
            lambda: session.run(self._table.try_lead()),
            lambda: name_holders(session, self._table.leaders()),
            f"Standing by: another mover moves the messages of {self._table.address}",
            self._settings.standby_delay.total_seconds(),
        )

    async def lead(self, session: AsyncSession) -> None:
        """Move what is due, and sleep until the next message is."""
        if self._has_session:
            silence = self._settings.silence_timeout.total_seconds()
            await session.run_all(self._table.configure(lock_timeout=LOCK_TIMEOUT, idle_timeout=silence))
            await session.run_all(self._table.listen())
        self.leads.set()
        logger.info("Leading: moving the messages of %s when they are due", self._table.address)
        pauses = Pauses(self._settings.longest_look_delay.total_seconds())
        while not self._stopping.is_set():
            moved, next_due = 0, await session.run(self._table.next_due())
            if next_due is not None and next_due <= 0:
                moved = await self._moves.move_all(session, self._goes_on)
                next_due = await session.run(self._table.next_due())  # which also hears what was notified
            self._outages.succeeded()
            await pause_unless_notified(session, self._stopping, pauses.after(moved, next_due))

    def _goes_on(self) -> bool:
        return not self._stopping.is_set()


async def open_session(database: Database, table: DelayedTable, *, configured: bool = True) -> AsyncSession:
    """Open a session fit for moving; not `configured` behind a pooler, where settings would become other sessions'.

    Raises ConnectionLostError.
    """
    session = await database.connect_reader()
    try:
        if configured:
            await session.run_all(table.configure(lock_timeout=LOCK_TIMEOUT, idle_timeout=0))
    except BaseException:
        await session.close()
        raise
    return session
