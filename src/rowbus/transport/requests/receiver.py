"""Receives the answers of one asker from its queue, which it owns and creates; removes those of askers that died.

Invariants: the queue is owned by the session that receives from it, before it exists; no answer is handed over that is
not deleted by the same transaction, and one whose commit fails is dropped when it comes again; a queue is removed only
under the lock of its owner, and only if it was without one at the look before, too.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConnectionLostError, StorageError
from rowbus.running.backoff import LookPauses
from rowbus.running.critical import ReportedBreaker
from rowbus.running.service import Periodic, Service
from rowbus.running.waiting import pause_unless_notified
from rowbus.transport.queues.installer import create_queue
from rowbus.transport.queues.table import queue_table
from rowbus.transport.requests.decisions import LeftBehind
from rowbus.transport.requests.table import answer_queue

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession, Database, ReceiveSession
    from rowbus.messages.address import QueueAddress
    from rowbus.running.critical import Alarm
    from rowbus.transport.requests.pending import PendingRequests

logger = logging.getLogger("rowbus.requests")

BATCH: Final = 100  # answers of one transaction
FROM_THE_START: Final = -(2**31)
LONGEST_PAUSE: Final = 0.25  # seconds between two looks while an answer is waited for: .NET does not notify
IDLE_PAUSE: Final = 10.0  # seconds between two looks for late answers


class AnswerReceiver(Service):
    """Receives answers from `start` to `stop`, which drops the queue. For one event loop."""

    def __init__(
        self,
        database: Database,
        address: QueueAddress,
        pending: PendingRequests,
        alarm: Alarm,
        *,
        is_kept: bool = False,
    ) -> None:
        """Say which queue is to be owned, and who gets what comes there; `is_kept`: it is never dropped. No I/O."""
        failure = f"Failed to receive answers from {address}"
        super().__init__(
            f"rowbus {address} answers", ReportedBreaker("Receiving answers", failure, logger, alarm)
        )
        self.address = address
        self._is_kept = is_kept
        self._database = database
        self._table = queue_table(address)
        self._pending = pending
        self._pauses = LookPauses(LONGEST_PAUSE)
        self._wake = asyncio.Event()
        self._session: ReceiveSession | None = None

    async def prepare(self) -> None:
        """Own the queue, create it, and listen. Raises StorageError, ConfigurationError (the schema is missing)."""
        self._session = await self._open()

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Receive no more, and drop the queue unless it is kept, if the database is there. Harmless when stopped."""
        if self._task is None:
            return
        self._wake.set()
        await super().stop(timeout)
        if not self._is_kept:
            await self._drop()

    def asked(self) -> None:
        """Look soon, and often: a request leaves."""
        if self._pauses.worked():
            self._wake.set()

    async def work(self) -> None:
        """Receive what is there, then wait for more."""
        if self._session is None:
            self._session = await self._open()
        found = await self._receive(self._session)
        self._outages.succeeded()
        if not found:
            await self._wait(self._session)

    async def _wait(self, session: AsyncSession) -> None:
        """Wait for a notification, or for the time of the next look, which a request brings nearer."""
        while not self._stopping.is_set():
            self._wake.clear()
            seconds = self._pauses.following() if len(self._pending) else IDLE_PAUSE
            await pause_unless_notified(session, self._wake, seconds)
            if not self._wake.is_set():
                return

    async def release(self) -> None:
        """Close the session, and so own the queue no longer."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _receive(self, session: ReceiveSession) -> int:
        rows = await session.begin(self._table.receive(BATCH, FROM_THE_START))
        for row in rows:
            self._pending.received(row)
        await session.commit()
        return len(rows)

    async def _open(self) -> ReceiveSession:
        session = await self._database.connect_receiver()
        try:
            await self._own(session)
            await create_queue(session, self.address)
            await session.run_all(self._table.listen())
        except BaseException:
            await session.close()
            raise
        return session

    async def _own(self, session: AsyncSession) -> None:
        """Own the queue, which for a moment a session that broke may own still, or one that looks for owners."""
        if not await session.run(answer_queue(self.address).own()):
            raise ConnectionLostError(
                f"The queue of answers {self.address} is owned by another session still.",
                sqlstate=None,
                transient=True,
            )

    async def _drop(self) -> None:
        try:
            session = await self._database.connect()
            try:
                await session.run(self._table.drop())
            finally:
                await session.close()
        except StorageError as error:
            logger.warning("The queue %s stays until another asker removes it: %s", self.address, error)


PERIOD: Final = 60.0  # seconds between two looks


class Sweeper(Periodic):
    """Looks for queues left behind in the schema of an asker's own. For one event loop."""

    def __init__(
        self, database: Database, address: QueueAddress, alarm: Alarm, *, period: float = PERIOD
    ) -> None:
        """Look beside this queue, every `period` seconds, give or take a fifth, and first at the start. No I/O."""
        failure = "Could not remove the queues of askers that are gone"
        outages = ReportedBreaker("Removing the queues of askers that are gone", failure, logger, alarm)
        super().__init__(f"rowbus {address} sweeper", outages, period, at_once=True)
        self._database = database
        self._address = address
        self._left = LeftBehind()

    async def do(self) -> None:
        """Remove what was left behind. Raises ConnectionLostError."""
        session = await self._database.connect()
        try:
            await self._sweep(session)
        finally:
            await session.close()

    async def _sweep(self, session: AsyncSession) -> None:
        names = await session.run(answer_queue(self._address).beside())
        beside = {name: replace(self._address, table=name) for name in names if name != self._address.table}
        chosen = self._left.next(beside)
        unowned = [name for name in chosen if await session.run(answer_queue(beside[name]).own())]
        for name in sorted(self._left.looked(unowned)):
            await self._remove(session, beside[name])

    async def _remove(self, session: AsyncSession, address: QueueAddress) -> None:
        try:
            await session.run(queue_table(address).drop())
        except ConnectionLostError:
            raise
        except StorageError as error:
            logger.debug("The queue %s of an asker that is gone cannot be removed: %s", address, error)
        else:
            logger.info("Removed %s, the queue of an asker that is gone", address)
