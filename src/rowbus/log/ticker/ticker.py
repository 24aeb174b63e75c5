"""`Ticker`: a service that drives the logs of a database, in your process or in its own.

One ticker leads, others stand by. The session that looks and ticks holds the lock of the leader. So a ticker that has
lost its connection cannot tick. The lock of a ticker that died is free at once; the lock of one that hangs, after
`silence_timeout`. A stock pgqd and other callers of pgq.ticker() may run beside it: that function takes a lock of its
own.

Invariants: nothing touches the database before `start`, and after `stop` nothing is left running; every tick is a
transaction of its own, and no log holds up the others for longer than `ticks.LOCK_TIMEOUT`; maintenance that fails is
logged when it begins to fail, not each time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.location import resolve_dsn
from rowbus.database.locks import name_holders, require_sessions
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError, ConnectionLostError, StorageError
from rowbus.log.ticker import ticks
from rowbus.log.ticker.decisions import Recurring, TickSchedule, Troubles
from rowbus.log.ticker.ticks import Upkeep
from rowbus.running.critical import Alarm, ReportedBreaker, callback_of
from rowbus.running.service import ElectedService, Election, Lifetime, Service
from rowbus.running.signals import Serving
from rowbus.running.telemetry.instruments import instruments, tracing
from rowbus.settings import TickerSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.database.postgresql.connection import AsyncSession
    from rowbus.log.ticker.decisions import Wish
    from rowbus.log.ticker.ticks import Report
    from rowbus.running.critical import OnCriticalError

logger = logging.getLogger("rowbus.ticker")
upkeep_logger = logging.getLogger("rowbus.maintenance")

APPLICATION_NAME = "rowbus ticker"
USUAL = TickerSettings()


class NewTick(NamedTuple):
    """A tick that was made: the log's name and the tick's id."""

    log: str
    tick: int


class Ticking:
    """Looks and ticks on a session that has this `configuration`."""

    def __init__(
        self, session: AsyncSession, settings: TickerSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin without knowing any log. No I/O."""
        self._session = session
        self.schedule = TickSchedule(settings.longest_look_delay.total_seconds(), clock)
        self.failures: dict[str, str] = {}
        """The last error of each log that could not be ticked."""

    async def look(self) -> list[NewTick]:
        """Tick the logs that want it now. Raises ConnectionLostError, and ConfigurationError without the schema.

        A log that cannot be ticked is logged once, a locked one when that lasts, and left alone for a while.
        """
        started = time.time_ns()
        ticked = [await self._tick(wish) for wish in self.schedule.due(await self._wishes())]
        made = [tick for tick in ticked if tick is not None]
        self._tell(made, started)
        return made

    def _tell(self, made: list[NewTick], started: int) -> None:
        """Measure a look, and trace one that made ticks, where that is wanted."""
        if (measured := instruments()) is not None:
            measured.looks.observe((time.time_ns() - started) / 1e9)
            for tick in made:
                measured.ticks.add((tick.log,))
        if made and (spans := tracing()) is not None:
            names = ", ".join(sorted({tick.log for tick in made}))
            spans.work("tick", started, {"rowbus.logs": names, "messaging.batch.message_count": len(made)})

    async def _wishes(self) -> list[Wish]:
        try:
            return await self._session.run(ticks.look(self.schedule.aside()))
        except StorageError as error:
            if error.sqlstate in ticks.NOT_INSTALLED:
                raise _not_installed(error) from error
            if error.sqlstate not in {ticks.LOCK_TIMED_OUT, ticks.DROPPED_MEANWHILE}:
                raise
        return await self._look_one_by_one()

    async def _look_one_by_one(self) -> list[Wish]:
        """Look at each log by itself, because one of them is locked, perhaps by a drop, or gone."""
        wishes: list[Wish] = []
        aside = set(self.schedule.aside())
        for queue, log in await self._session.run(ticks.ticked_logs()):
            if queue not in aside:
                try:
                    wishes += await self._session.run(ticks.look(only=queue))
                except StorageError as error:
                    self._failed(queue, log, error)
        return wishes

    async def _tick(self, wish: Wish) -> NewTick | None:
        try:
            tick = await self._session.run(ticks.tick(wish.log))
        except StorageError as error:
            self._failed(wish.queue, wish.log, error)
            return None
        if tick is None:
            self.schedule.declined(wish)
            return None
        self.failures.pop(wish.log, None)
        if self.schedule.ticked(wish.queue):
            logger.info("The log %s is ticked again.", wish.log)
        return NewTick(wish.log, tick)

    def _failed(self, queue: int, log: str, error: StorageError) -> None:
        if isinstance(error, ConnectionLostError):
            raise error
        self.failures[log] = str(error)
        if (measured := instruments()) is not None:
            measured.tick_failures.add((log,))
        if self.schedule.failed(queue, locked=error.sqlstate == ticks.LOCK_TIMED_OUT):
            logger.warning("The log %s is left alone for a while: %s", log, error)


class Maintenance(Service):
    """Keeps a database's logs in order as long as its ticker leads. For one event loop."""

    def __init__(self, database: Database, settings: TickerSettings, alarm: Alarm) -> None:
        """Take the database whose logs to maintain. No I/O."""
        failure = "Maintenance of the logs failed"
        outages = ReportedBreaker("Maintenance of the logs", failure, upkeep_logger, alarm)
        super().__init__("rowbus maintenance", outages)
        self._database = database
        self._retries = Recurring(settings.retry_delay.total_seconds(), alarm.clock)
        self._passes = Recurring(settings.maintenance_period.total_seconds(), alarm.clock)
        self._session: AsyncSession | None = None
        self._failures = Troubles()
        self._blocks = Troubles()

    async def work(self) -> None:
        """Do what is due, and wait for what is due next."""
        self._session = self._session or await ticks.open_session(self._database, None)
        await self._turn(Upkeep(self._session, self._stopping.is_set))
        self._outages.succeeded()
        await self.pause(min(self._retries.wait(), self._passes.wait()))

    async def release(self) -> None:
        """Close the session; the next one begins with a pass."""
        session, self._session = self._session, None
        self._passes.hasten()
        if session is not None:
            await session.close()

    async def _turn(self, upkeep: Upkeep) -> None:
        if self._passes.take():
            self._retries.take()
            self._tell(await upkeep.everything())
        elif self._retries.take():
            await upkeep.move_retries()

    def _tell(self, report: Report) -> None:
        """Log the news: operations that began to fail or work again, and logs whose rotation is blocked."""
        failures = self._failures.update(report.failed)
        for operation, error in failures.arisen:
            upkeep_logger.warning(
                "Maintenance failed (%s), and is tried again each time: %s", operation, error
            )
        for operation in failures.over:
            upkeep_logger.info("Maintenance works again (%s).", operation)
        blocks = self._blocks.update(report.blocked)
        for log, reason in blocks.arisen:
            upkeep_logger.warning(
                "The tables of log %s cannot be rotated, so its events are kept: %s", log, reason
            )
        for log in blocks.over:
            upkeep_logger.info("Nothing blocks the rotation of log %s any more.", log)


class TickerService(ElectedService["AsyncSession"]):
    """Leads or stands by, from `start` to `stop`. For one event loop.

    `stop` finishes the tick and the maintenance operation in hand.
    """

    def __init__(self, database: Database, settings: TickerSettings, alarm: Alarm) -> None:
        """Take the database whose logs to tick and maintain. No I/O."""
        failure = f"Ticking the logs of {database.name} failed"
        super().__init__("rowbus ticker", ReportedBreaker("Ticking", failure, logger, alarm))
        self._database = database
        self._settings = settings
        self._maintenance = Maintenance(database, settings, alarm)

    async def prepare(self) -> None:
        """Warn of a role that may do more than it needs. Raises ConnectionLostError."""
        session = await ticks.open_session(self._database, self._settings, warns=True)
        await session.close()

    async def open(self) -> AsyncSession:
        """Open the session that ticks."""
        return await ticks.open_session(self._database, self._settings)

    def election(self, session: AsyncSession) -> Election:
        """Return the election of the one ticker of the database."""
        return Election(
            lambda: session.run(ticks.try_lead()),
            lambda: name_holders(session, ticks.leaders()),
            f"Standing by: another ticker drives the logs of {self._database.name}",
            self._settings.standby_delay.total_seconds(),
        )

    async def lead(self, session: AsyncSession) -> None:
        """Tick, and have maintenance run beside."""
        await session.run(ticks.configure(self._settings, self._settings.silence_timeout))
        await ticks.check_rights(session)  # the schema may be another by now
        ticking = Ticking(session, self._settings)
        await ticking.look()
        await self._maintenance.start()
        self.leads.set()
        logger.info("Leading: driving the logs of %s", self._database.name)
        while not self._stopping.is_set():
            self._outages.succeeded()
            await self.pause(ticking.schedule.pause())
            await ticking.look()

    async def work(self) -> None:
        """Lead; end maintenance after the session, so that another ticker can lead while an operation is finished."""
        try:
            await super().work()
        except BaseException:
            await self._maintenance.stop(0)
            raise
        await self._maintenance.stop()


def _not_installed(error: StorageError) -> ConfigurationError:
    return ConfigurationError(
        f"This database has no event log of Rowbus; `rowbus log install` makes one, "
        f"`rowbus log adopt` takes over PgQ's ({error})."
    )


class Pass(NamedTuple):
    """The result of `Ticker.run_once`: the ticks it made, the logs it could not tick and why, and its maintenance."""

    ticks: list[NewTick]
    failed: dict[str, str]
    maintenance: Report


class Ticker(Serving):
    """Drives the logs of one database: ticks, retries, rotation and the rest of PgQ's maintenance.

    Any number may run on a database: one leads, the others stand by, and one takes over within seconds when it ends.

    ```python
    async with rowbus.Ticker("postgresql://…"):
        ...
    ```
    """

    def __init__(
        self,
        database: str | None = None,
        *,
        settings: TickerSettings | None = None,
        on_critical_error: OnCriticalError | None = None,
    ) -> None:
        """Describe the ticker; no I/O.

        `database` is a libpq connection string; none given, the environment variable ROWBUS_DATABASE, else the
        embedded server. Its session holds a lock, so it must not go through a pooler in transaction mode.
        `on_critical_error(text, error)` is called, once for each outage, when ticking or maintenance has
        failed for long.
        """
        self.database = database
        self.settings = settings or USUAL
        self._on_critical_error = callback_of(on_critical_error, logger)

    @cached_property
    def _lifetime(self) -> Lifetime[TickerService]:
        """Its runs; a single pass is none."""
        return Lifetime(self)

    def run_once(self) -> Pass:
        """Tick the logs that are due and make one pass of maintenance, whether this or another ticker leads. Blocks.

        Raises ConnectionLostError, and ConfigurationError when the event log is not installed.
        """
        return asyncio.run(self._pass())

    async def start(self) -> None:
        """Begin to stand by, and to lead as soon as no other ticker does. Harmless when started.

        A database without the event log is waited for. Raises ConnectionLostError, and ConfigurationError behind a
        pooler in transaction mode.
        """
        await self._lifetime.begin(self._begin)

    async def _begin(self) -> TickerService:
        alarm = Alarm(self._on_critical_error, self.settings.time_to_trigger_circuit_breaker)
        database = await self._locate()
        await asyncio.to_thread(require_sessions, database, "A ticker")
        service = TickerService(database, self.settings, alarm)
        await service.start()
        return service

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Finish what is in hand and let another ticker lead. After `timeout` seconds what is in hand is undone."""
        await self._lifetime.end(timeout)

    @property
    def is_leading(self) -> bool:
        """Whether this ticker, of all that run on the database, is the one that drives its logs."""
        service = self._lifetime.run
        return service is not None and service.leads.is_set()

    async def _pass(self) -> Pass:
        database = await self._locate()
        session = await ticks.open_session(database, self.settings, warns=True)
        try:
            ticking = Ticking(session, self.settings)
            made = await ticking.look()
        finally:
            await session.close()
        session = await ticks.open_session(database, None)
        try:
            return Pass(made, ticking.failures, await Upkeep(session).everything())
        finally:
            await session.close()

    async def _locate(self) -> Database:
        dsn = await asyncio.to_thread(resolve_dsn, self.database)
        return Database(dsn, application_name=APPLICATION_NAME)
