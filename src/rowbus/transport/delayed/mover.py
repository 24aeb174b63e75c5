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
import random
import time
from typing import TYPE_CHECKING

from rowbus.database.locks.holders import name_holders
from rowbus.errors import RowbusError
from rowbus.running.backoff import jittered
from rowbus.running.breaker import CircuitBreaker
from rowbus.running.waiting import finish, pause, pause_unless_notified
from rowbus.transport.delayed.due_moves import Pauses
from rowbus.transport.delayed.moves import DueMoves
from rowbus.transport.delayed.table import delayed_table

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.messages.address import QueueAddress
    from rowbus.running.critical import OnCriticalError
    from rowbus.settings import NativeDelayedDelivery
    from rowbus.transport.delayed.moves import Fallback
    from rowbus.transport.delayed.table import DelayedTable

logger = logging.getLogger("rowbus.delaying")

LOCK_TIMEOUT = 5.0  # seconds a queue that somebody has locked may hold up the others
FAILED = "Failed to move matured delayed messages to input queue"


class MoverService:
    """Leads or stands by, from `start` to `stop`. For one event loop."""

    def __init__(
        self,
        database: Database,
        address: QueueAddress,
        fallback: Fallback,
        settings: NativeDelayedDelivery,
        on_critical_error: OnCriticalError,
        *,
        breaker_seconds: float = 30.0,
        notifications: bool = True,
    ) -> None:
        """Say which table's messages to move. No I/O.

        Without `notifications`, behind a pooler, a session's lock means nothing either: then every mover works, and
        looks as often as the settings say.
        """
        self._database = database
        self._table = delayed_table(address)
        self._settings = settings
        self._moves = DueMoves(self._table, fallback, settings.batch_size, notify=notifications)
        self._on_critical_error = on_critical_error
        self._has_session = notifications
        self._stopping = asyncio.Event()
        self._breaker = CircuitBreaker(breaker_seconds, time.monotonic)
        self._task: asyncio.Task[None] | None = None
        self.leads = asyncio.Event()
        """Set while this mover leads."""

    def start(self) -> None:
        """Begin to stand by; returns at once. Harmless when begun."""
        if self._task is None:
            self._stopping.clear()
            self._task = asyncio.create_task(self._run(), name=f"rowbus {self._table.address} mover")

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Finish the batch in hand, then stop; after `timeout` seconds, or when cancelled, it is rolled back."""
        if self._task is None:
            return
        self._stopping.set()
        try:
            await finish(self._task, timeout)
        finally:
            self._task = None

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._serve()
            except Exception as error:  # whatever it is, somebody has to move what is due
                if not isinstance(error, RowbusError):
                    logger.exception("Unexpected error while moving delayed messages")
                await self._failed(error)

    async def _serve(self) -> None:
        """Lead, when it is our turn, as long as the session lasts."""
        session = await open_session(self._database, self._table, configured=self._has_session)
        try:
            if await self._elected(session):
                await self._lead(session)
        finally:
            self.leads.clear()
            await session.close()

    async def _elected(self, session: AsyncSession) -> bool:
        """Wait until no other mover leads; say whether this one does now (False: it is to stop)."""
        waits = False
        while not self._stopping.is_set():
            if not self._has_session or await session.run(self._table.try_lead()):
                return True
            self._recovered()
            if not waits:
                holder = await name_holders(session, self._table.leaders())
                logger.info(
                    "Standing by: another mover moves the messages of %s: %s", self._table.address, holder
                )
                waits = True
            await pause(self._stopping, jittered(self._settings.standby_delay.total_seconds(), random.random))
        return False

    async def _lead(self, session: AsyncSession) -> None:
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
            self._recovered()
            await pause_unless_notified(session, self._stopping, pauses.after(moved, next_due))

    def _goes_on(self) -> bool:
        return not self._stopping.is_set()

    async def _failed(self, error: Exception) -> None:
        outage = self._breaker.failed()
        what = f"{FAILED}: {self._table.address}"
        if outage.critical:
            self._on_critical_error(what, error)
        elif outage.first:
            logger.warning("%s; trying again until it works: %s", what, error)
        else:
            logger.debug("%s: %s", what, error)
        await pause(self._stopping, outage.wait)

    def _recovered(self) -> None:
        failures = self._breaker.succeeded()
        if failures:
            logger.info("Moving delayed messages works again after %s failures.", failures)


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
