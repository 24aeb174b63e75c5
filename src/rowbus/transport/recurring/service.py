"""Sends an endpoint's recurring messages: each tick once, however many instances of the endpoint run.

Every instance looks; none leads. At a tick each tries to advance the schedule's row, in the transaction that sends the
messages; the row's lock lets one of them succeed. So an instance that dies loses nothing, and the next one to look
takes its place at once.

An instance whose schedule has another text than the row's leaves it alone: while two versions of a program run side by
side, those that were started last decide.

Invariant: a tick's messages and the row's advance commit together; when a tick is due the database's clock says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from rowbus.errors import StorageError
from rowbus.errors.strangers import attribute, is_a
from rowbus.running.critical import ReportedBreaker
from rowbus.running.service import Service
from rowbus.transport.pauses.table import PERIOD
from rowbus.transport.recurring.schedule import CatchUp, due_ticks, pause_until
from rowbus.transport.recurring.table import recurring_table

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession, SessionPool
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.running.critical import Alarm
    from rowbus.transport.pauses.table import Hold, PauseSubject
    from rowbus.transport.recurring.schedule import Schedule
    from rowbus.transport.recurring.table import ScheduleRow

logger = logging.getLogger("rowbus.recurring")

Compose = Callable[[datetime], "Sequence[Statement[object]]"]
"""Returns the statements that send what belongs to a tick; may raise anything."""


class Recurring(NamedTuple):
    """A recurring message: its name, when it is sent, what becomes of missed ticks, and what sends it."""

    name: str
    schedule: Schedule
    catch_up: CatchUp
    compose: Compose


class RecurringService(Service):
    """Sends what is due, from `start` to `stop`. For one event loop."""

    def __init__(
        self,
        pool: SessionPool,
        address: QueueAddress,
        messages: Sequence[Recurring],
        clock: Callable[[], Statement[datetime]],
        alarm: Alarm,
        *,
        hold: Hold | None = None,
    ) -> None:
        """Take the table and the recurring messages; `clock` asks the database what time it is. No I/O.

        `hold` knows which of them an operator has paused: they are sent when that is over, as they catch up.
        """
        outages = ReportedBreaker(
            "Sending recurring messages", f"Could not send recurring messages of {address}", logger, alarm
        )
        super().__init__(f"rowbus {address} service", outages)
        self._pool = pool
        self._table = recurring_table(address)
        self._messages = {message.name: message for message in messages}
        self._clock = clock
        self._in_vain = 0
        self._hold = hold

    async def prepare(self) -> None:
        """Note the schedules that are new, or another than they were. Raises StorageError."""
        async with self._pool.session() as session:
            now = await session.run(self._clock())
            for name, message in sorted(self._messages.items()):
                text, first = message.schedule.text, message.schedule.after(now)
                if await session.run(self._table.declare(name, text, first)):
                    logger.info("%s is sent %s, first at %s", name, text, first)

    async def work(self) -> None:
        """Send what is due, then sleep until something is."""
        rows = await self._rows()
        at = rows[0].at if rows else datetime.now(UTC)
        held = {one.name.partition("/")[2] for one in await self._held()}
        sent = await self._send_all([row for row in rows if row.next_due <= at and row.name not in held])
        self._outages.succeeded()
        self._in_vain = 0 if all(sent) else self._in_vain + 1
        waiting = [row.next_due for row in rows if row.next_due > at]
        pause = pause_until(at if sent else min(waiting, default=None), at, self._in_vain)
        await self.pause(min(pause, PERIOD) if held else pause)

    async def _held(self) -> Sequence[PauseSubject]:
        """Return what operators have paused."""
        if self._hold is None:
            return ()
        async with self._pool.session() as session:
            return await self._hold.ask(session)

    async def send(self, row: ScheduleRow) -> bool:
        """Send the ticks of a schedule that are due, in one transaction; say whether another instance had not yet."""
        message = self._messages[row.name]
        due = due_ticks(message.schedule, row.next_due, row.at, message.catch_up)
        statements = [statement for tick in due.ticks for statement in message.compose(tick)]
        last = due.ticks[-1] if due.ticks else None
        async with self._pool.session() as session, session.transaction():
            if not await session.run(self._table.advance(row, due.following, last)):
                return False
            await session.run_all(statements)
        return True

    async def _send_all(self, rows: Sequence[ScheduleRow]) -> list[bool]:
        """Send what is due of each; one that fails holds up no other, and raises in the end."""
        sent: list[bool] = []
        failure: Exception | None = None
        for row in rows:
            try:
                sent.append(await self.send(row))
            except Exception as error:
                if is_a(error, StorageError) and attribute(error, "transient") is True:
                    raise
                logger.error("Could not send the recurring message %s: %s", row.name, error)  # noqa: TRY400 - it is raised below
                failure = error if failure is None else failure
        if failure is not None:
            raise failure
        return sent

    async def _rows(self) -> list[ScheduleRow]:
        """Return the schedules that are this instance's to send."""
        async with self._pool.session() as session:
            return [
                await self._corrected(row, message.schedule, session)
                for row in await session.run(self._table.list())
                if (message := self._messages.get(row.name)) and message.schedule.text == row.schedule
            ]

    async def _corrected(self, row: ScheduleRow, schedule: Schedule, session: AsyncSession) -> ScheduleRow:
        """Return a schedule that waits for its next tick, not for a later one, as after a clock that was ahead."""
        following = schedule.after(row.at)
        if row.next_due <= following:
            return row
        if await session.run(self._table.advance(row, following, None)):
            logger.warning("%s waited for %s; its next tick is %s", row.name, row.next_due, following)
        return row._replace(next_due=following)
