"""Ticks the logs of one database: one ticker leads, others stand by.

The session that looks and ticks is the one that holds the lock of leadership. So a ticker that has lost its connection
cannot tick, and the lock of one that died is free at once; of one that froze, when the server has missed it for
`silence_timeout`. A stock pgqd, or whoever else calls pgq.ticker(), may run beside it: that function takes turns.

Invariant: every tick is a transaction of its own, and no log holds up the others for longer than `LOCK_TIMEOUT`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.locks.holders import name_holders
from rowbus.errors import ConfigurationError, ConnectionLostError, RowbusError, StorageError
from rowbus.log.ticker import ticks
from rowbus.log.ticker.decisions import TickSchedule
from rowbus.log.ticker.maintenance import Maintenance
from rowbus.log.ticker.rights import check_rights, warn_of_rights
from rowbus.running.backoff import jittered
from rowbus.running.breaker import CircuitBreaker
from rowbus.running.waiting import cancel, finish, pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.database.postgresql.connection import AsyncSession
    from rowbus.database.postgresql.database import Database
    from rowbus.database.statements import Statement
    from rowbus.log.ticker.decisions import Wish
    from rowbus.running.critical import OnCriticalError
    from rowbus.settings import TickerSettings

logger = logging.getLogger("rowbus.ticker")

LOCK_TIMEOUT = 0.1  # seconds a log that somebody has locked may hold up the others, now and then
NEVER = timedelta(0)


class Ticked(NamedTuple):
    """A tick that was made: the log's name and the tick's id."""

    log: str
    tick: int


class Ticking:
    """Looks and ticks on a session that was made fit for it."""

    def __init__(
        self, session: AsyncSession, settings: TickerSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin without knowing any log. No I/O."""
        self._session = session
        self.schedule = TickSchedule(settings.longest_look_delay.total_seconds(), clock)
        self.failures: dict[str, str] = {}
        """What went wrong with single logs when last tried."""

    async def look(self) -> list[Ticked]:
        """Tick the logs that want it now. Raises ConnectionLostError, and ConfigurationError without the schema.

        A log that cannot be ticked is logged once, and left alone for a while.
        """
        ticked = [await self._tick(wish) for wish in self.schedule.due(await self._wishes())]
        return [tick for tick in ticked if tick is not None]

    async def _wishes(self) -> list[Wish]:
        try:
            return await self._session.run(ticks.look(self.schedule.aside()))
        except StorageError as error:
            if error.sqlstate in ticks.NOT_INSTALLED:
                raise _not_installed(error) from error
            if error.sqlstate != ticks.LOCK_TIMED_OUT:
                raise
        return await self._look_one_by_one()

    async def _look_one_by_one(self) -> list[Wish]:
        """Look at each log by itself, because one of them is locked, being dropped perhaps."""
        wishes: list[Wish] = []
        aside = set(self.schedule.aside())
        for queue, log in await self._session.run(ticks.ticked_logs()):
            if queue not in aside:
                try:
                    wishes += await self._session.run(ticks.look(only=queue))
                except StorageError as error:
                    self._failed(queue, log, error)
        return wishes

    async def _tick(self, wish: Wish) -> Ticked | None:
        try:
            tick = await self._session.run(ticks.tick(wish.log))
        except StorageError as error:
            self._failed(wish.queue, wish.log, error)
            return None
        if tick is None:
            self.schedule.declined(wish)
            return None
        if self.schedule.ticked(wish.queue):
            del self.failures[wish.log]
            logger.info("The log %s is ticked again.", wish.log)
        return Ticked(wish.log, tick)

    def _failed(self, queue: int, log: str, error: StorageError) -> None:
        if isinstance(error, ConnectionLostError):
            raise error
        self.failures[log] = str(error)
        if self.schedule.failed(queue):
            logger.warning("The log %s is left alone for a while: %s", log, error)


class TickerService:
    """Leads or stands by, from `start` to `stop`. For one event loop."""

    def __init__(
        self, database: Database, settings: TickerSettings, on_critical_error: OnCriticalError
    ) -> None:
        """Say which database's logs to drive. No I/O."""
        self._database = database
        self._settings = settings
        self._on_critical_error = on_critical_error
        self._stopping = asyncio.Event()
        self._breaker = CircuitBreaker(
            settings.time_to_trigger_circuit_breaker.total_seconds(), time.monotonic
        )
        self._task: asyncio.Task[None] | None = None
        self.leads = asyncio.Event()
        """Set while this ticker leads."""

    async def start(self) -> None:
        """Begin to stand by; harmless when begun. Raises ConnectionLostError when the database cannot be reached."""
        if self._task is not None:
            return
        session = await open_session(self._database, self._settings)
        await warn_of_rights(session)
        self._stopping.clear()
        self._task = asyncio.create_task(self._run(session), name="rowbus ticker")

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Finish the tick and the maintenance operation in hand, then stop; another ticker can lead at once.

        After `timeout` seconds, or when the caller is cancelled, they are cancelled and rolled back.
        """
        if self._task is None:
            return
        self._stopping.set()
        try:
            await finish(self._task, timeout)
        finally:
            self._task = None

    # --- leading and standing by

    async def _run(self, session: AsyncSession | None) -> None:
        while not self._stopping.is_set():
            try:
                given, session = session, None
                await self._serve(given or await open_session(self._database, self._settings))
            except Exception as error:  # whatever it is, somebody has to tick
                if not isinstance(error, RowbusError):
                    logger.exception("Unexpected error while ticking")
                await self._failed(error)

    async def _serve(self, session: AsyncSession) -> None:
        """Lead, when it is our turn, as long as the session lasts."""
        maintenance: asyncio.Task[None] | None = None
        try:
            if await self._elected(session):
                ticking = Ticking(session, self._settings)
                await check_rights(session)  # the schema may be another by now
                await ticking.look()
                maintenance = asyncio.create_task(
                    Maintenance(self._database, self._settings).run(self._stopping), name="rowbus maintenance"
                )
                await self._lead(ticking)
        finally:
            self.leads.clear()
            await session.close()  # now another can lead, whatever maintenance has still in hand
            if maintenance is not None:
                await self._end(maintenance)

    async def _elected(self, session: AsyncSession) -> bool:
        """Wait until no other ticker leads; say whether this one does now (False: it is to stop)."""
        waits = False
        while not self._stopping.is_set():
            if await session.run(ticks.try_lead()):
                await session.run(_configuration(self._settings, self._settings.silence_timeout))
                return True
            self._recovered()
            if not waits:
                holder = await name_holders(session, ticks.leaders())
                logger.info(
                    "Standing by: another ticker drives the logs of %s: %s", self._database.name, holder
                )
                waits = True
            await pause(self._stopping, jittered(self._settings.standby_delay.total_seconds(), random.random))
        return False

    async def _lead(self, ticking: Ticking) -> None:
        self.leads.set()
        logger.info("Leading: driving the logs of %s", self._database.name)
        while not self._stopping.is_set():
            self._recovered()
            await pause(self._stopping, ticking.schedule.pause())
            await ticking.look()

    async def _end(self, maintenance: asyncio.Task[None]) -> None:
        """Have maintenance finish what it has in hand if we are to stop, else break it off."""
        try:
            if self._stopping.is_set():
                await asyncio.wait([maintenance])
        finally:
            await cancel([maintenance])

    # --- trouble

    async def _failed(self, error: Exception) -> None:
        outage = self._breaker.failed()
        what = f"Ticking the logs of {self._database.name} failed"
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
            logger.info("Ticking works again after %s failures.", failures)


async def open_session(database: Database, settings: TickerSettings) -> AsyncSession:
    """Open a session fit for looking and ticking.

    Raises ConnectionLostError, and ConfigurationError for a role that must not run what is in schema pgq.
    """
    session = await database.connect()
    try:
        await session.run(_configuration(settings, NEVER))
        await check_rights(session)
    except BaseException:
        await session.close()
        raise
    return session


def _configuration(settings: TickerSettings, silence: timedelta) -> Statement[None]:
    """Return what makes a session fit for ticking, and has the server end it after such a silence."""
    return ticks.configure(
        tick_period=settings.tick_period,
        lock_timeout=LOCK_TIMEOUT,
        idle_timeout=silence.total_seconds(),
    )


def _not_installed(error: StorageError) -> ConfigurationError:
    return ConfigurationError(
        f"This database has no event log of Rowbus; `rowbus log install` makes one, "
        f"`rowbus log adopt` takes over PgQ's ({error})."
    )
