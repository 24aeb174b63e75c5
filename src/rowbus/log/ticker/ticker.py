"""`Ticker`: a service that drives the logs of a database, in your process or in its own.

Invariant: nothing touches the database before `start`, and after `stop` nothing is left running.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.log.ticker import maintenance
from rowbus.log.ticker.service import Ticked, TickerService, Ticking, configuration
from rowbus.log.ticker.sessions import open_session
from rowbus.running.critical import Alarm, callback_of
from rowbus.running.signals import Serving
from rowbus.settings import TickerSettings

if TYPE_CHECKING:
    from rowbus.log.ticker.maintenance import Report
    from rowbus.running.critical import OnCriticalError

logger = logging.getLogger("rowbus.ticker")

APPLICATION_NAME = "rowbus ticker"


class Pass(NamedTuple):
    """The result of `Ticker.run_once`: the ticks it made, the logs it could not tick and why, and its maintenance."""

    ticks: list[Ticked]
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
        self.settings = settings or TickerSettings()
        self._on_critical_error = callback_of(on_critical_error, logger)
        self._service: TickerService | None = None

    def run_once(self) -> Pass:
        """Tick the logs that are due and make one pass of maintenance, whether this or another ticker leads. Blocks.

        Raises ConnectionLostError, and ConfigurationError when the event log is not installed.
        """
        return asyncio.run(self._pass())

    async def start(self) -> None:
        """Begin to stand by, and to lead as soon as no other ticker does. Harmless when started.

        A database without the event log is waited for. Raises ConnectionLostError.
        """
        if self._service is None:
            alarm = Alarm(self._on_critical_error, self.settings.time_to_trigger_circuit_breaker)
            service = TickerService(await self._locate(), self.settings, alarm)
            await service.start()
            self._service = service

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Finish what is in hand and let another ticker lead. After `timeout` seconds what is in hand is undone."""
        service, self._service = self._service, None
        if service is not None:
            await service.stop(timeout)

    @property
    def is_leading(self) -> bool:
        """Whether this ticker, of all that run on the database, is the one that drives its logs."""
        return self._service is not None and self._service.leads.is_set()

    async def _pass(self) -> Pass:
        database = await self._locate()
        session = await open_session(database, configuration(self.settings), warns=True)
        try:
            ticking = Ticking(session, self.settings)
            ticks = await ticking.look()
        finally:
            await session.close()
        session = await maintenance.open_maintenance(database)
        try:
            return Pass(ticks, ticking.failures, await maintenance.Upkeep(session).everything())
        finally:
            await session.close()

    async def _locate(self) -> Database:
        dsn = await asyncio.to_thread(resolve_dsn, self.database)
        return Database(dsn, application_name=APPLICATION_NAME)
