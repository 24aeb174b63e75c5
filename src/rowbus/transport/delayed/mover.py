"""Moves messages from a table of delayed messages to their queues when they are due.

One mover of a table leads, by a lock of its session; others stand by and take over within seconds. NServiceBus's movers
know no such lock and may work beside it: all take rows under locks, so that none moves a message twice. The leader
sleeps until the next message is due, or until it hears that one was stored that is due soon.

Invariant: a message is moved only when the database's clock says that it is due, in one transaction, and what the
mover holds is free at once when its session ends.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic, time_ns
from typing import TYPE_CHECKING

from rowbus.database.locks import name_holders
from rowbus.errors import RowbusError
from rowbus.running.critical import ReportedBreaker
from rowbus.running.service import ElectedService, Election
from rowbus.running.telemetry.instruments import instruments, tracing
from rowbus.running.waiting import pause_unless_notified
from rowbus.transport.delayed.moves import DueMoves
from rowbus.transport.delayed.policy import Pauses
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.queues.lookout import QueueWatch

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.messages.address import QueueAddress
    from rowbus.running.critical import Alarm
    from rowbus.settings import NativeDelayedDelivery
    from rowbus.transport.delayed.moves import Fallback
    from rowbus.transport.delayed.table import DelayedTable
    from rowbus.transport.queues.lookout import Lookout

logger = logging.getLogger("rowbus.delaying")

LINGERS = 30.0  # seconds that a mover keeps its connection and its lock after its table has become empty
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
        lookout: Lookout | None = None,
    ) -> None:
        """Take the table whose messages to move. No I/O.

        With a `lookout`, which others share, it has no connection of its own while the table is empty.

        Without `notifications`, behind a pooler, a session's lock means nothing either: then every mover works, and
        looks as often as the settings say.
        """
        outages = ReportedBreaker("Moving delayed messages", f"{FAILED}: {address}", logger, alarm)
        super().__init__(f"rowbus {address} mover", outages)
        self._database = database
        self._table = delayed_table(address)
        self._settings = settings
        self._moves = DueMoves(self._table, fallback, settings.batch_size, notify=notifications)
        self._longest_pause = settings.longest_look_delay.total_seconds()
        self._has_session = notifications
        self._woken = asyncio.Event()
        self._lookout = lookout
        self._watch = QueueWatch(
            self._table, self._table.has_any, self._looked, self._woken, outages.ended_unasked
        )

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Finish the batch in hand; also ends a sleep."""
        self._stopping.set()
        self._woken.set()
        await super().stop(timeout)

    async def move_first(self) -> None:
        """Move a batch of what is due now, also beside the leader. The leader reports what fails."""
        try:
            session = await self.open()
            try:
                await self._moves.move(session)
            finally:
                await session.close()
        except RowbusError as error:
            logger.debug("Nothing was moved at the start: %s", error)

    async def work(self) -> None:
        """Sleep without a connection until there is a message; then lead, or stand by."""
        if self._lookout is not None:
            self._woken.clear()
            if not self._stopping.is_set():
                await self._lookout.wait(self._watch, 0.0)
        if not self._stopping.is_set():
            await super().work()

    async def release(self) -> None:
        """Give up the place at the lookout."""
        if self._lookout is not None:
            await self._lookout.leave(self._watch)

    def _looked(self, _found: int, _seconds: float) -> float:
        """Hear of a look while asleep; return the seconds until the next."""
        self._outages.succeeded()
        return self._longest_pause

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
            asks_once=self._table.address.backend
            == "sqlserver",  # Babelfish ends after many refusals in a session
        )

    async def lead(self, session: AsyncSession) -> None:
        """Move what is due, and sleep until the next message is."""
        if self._has_session:
            silence = self._settings.silence_timeout.total_seconds()
            await session.run_all(self._table.configure(lock_timeout=LOCK_TIMEOUT, idle_timeout=silence))
            await session.run_all(self._table.listen())
        self.leads.set()
        logger.info("Leading: moving the messages of %s when they are due", self._table.address)
        pauses = Pauses(self._longest_pause)
        measured, table = instruments(), (self._table.address.table,)
        worked = monotonic()
        while not self._stopping.is_set():
            moved, next_due = 0, await session.run(self._moves.next_due())
            if (next_due is not None and next_due <= 0) or self._moves.pause() <= 0:
                started = time_ns()
                moved = await self._moves.move_all(session, self._goes_on)
                moved += await self._moves.try_again(session)
                self._tell(moved, started)
                next_due = await session.run(self._moves.next_due())  # which also hears what was notified
            self._report(self._moves.failure)
            if measured is not None:
                measured.overdue.set(await self._overdue(session, next_due), table)
            is_idle = next_due is None and not moved and self._moves.failure is None
            worked = worked if is_idle else monotonic()
            if self._lookout is not None and monotonic() - worked > LINGERS:
                return
            pause = min(pauses.after(moved, next_due), self._moves.pause())
            await pause_unless_notified(session, self._stopping, pause)

    def _report(self, failure: RowbusError | None) -> None:
        """Tell that messages cannot be moved anywhere, or that all that were due were moved."""
        if failure is None:
            self._outages.succeeded()
        else:
            self._outages.failed(failure)

    async def _overdue(self, session: AsyncSession, next_due: float | None) -> float:
        """Say for how many seconds the first message is overdue, also one that is passed over."""
        if self._moves.failure is not None:
            next_due = await session.run(self._table.next_due())
        return max(0.0, -(next_due or 0))

    def _tell(self, moved: int, started: int) -> None:
        """Measure and trace a move, where that is wanted."""
        name = self._table.address.table
        if (measured := instruments()) is not None:
            measured.moved.add((name,), moved)
        if moved and (spans := tracing()) is not None:
            facts: dict[str, str | int] = {
                "messaging.destination.name": name,
                "messaging.batch.message_count": moved,
            }
            spans.work(f"move {name}", started, facts)

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
