"""Maintenance of logs: moves retries, rotates tables, vacuums, analyses, and does what else PgQ asks for.

The database lists the operations (`pgq.maint_operations`), as for the stock pgqd. Each operation is a statement of its
own, outside any transaction, and is called again as long as it returns a number other than 0.

Invariant: an operation that fails does not hold up the others, and is logged when it begins to fail, not each time.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rowbus.errors import ConnectionLostError, PermissionDeniedError, StorageError
from rowbus.log.ticker import ticks
from rowbus.log.ticker.decisions import Recurring, Troubles
from rowbus.running.critical import ReportedBreaker
from rowbus.running.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.database.postgresql.connection import AsyncSession
    from rowbus.database.postgresql.database import Database
    from rowbus.log.ticker.ticks import Operation
    from rowbus.running.critical import Alarm
    from rowbus.settings import TickerSettings

logger = logging.getLogger("rowbus.maintenance")

LOCK_TIMEOUT = 5.0  # seconds
MOVED_AT_ONCE = 1000  # events moved from the retry queue in one transaction
CALLS_AT_ONCE = 1000  # calls of one operation before the others have their turn


@dataclass(slots=True)
class Report:
    """The result of one pass. `failed` maps operations, `blocked` logs that could not be rotated, to the reason."""

    retried: int = 0
    operations: list[str] = field(default_factory=list[str])
    analyzed: list[str] = field(default_factory=list[str])
    regenerated: int = 0
    failed: dict[str, str] = field(default_factory=dict[str, str])
    blocked: dict[str, str] = field(default_factory=dict[str, str])


class Upkeep:
    """Maintains logs on a session that `open_maintenance` has configured."""

    def __init__(self, session: AsyncSession, is_stopping: Callable[[], bool] = lambda: False) -> None:
        """Use the session, which must be in autocommit mode. No I/O."""
        self._session = session
        self._is_stopping = is_stopping

    async def everything(self) -> Report:
        """Make one pass: retries, operations, capture functions, statistics. Raises ConnectionLostError."""
        report = Report()
        with _noting(report, "moving retries"):
            report.retried = await self.move_retries()
        await self._operate(report)
        with _noting(report, "regenerating capture functions"):
            report.regenerated = await self._session.run(ticks.regenerate_capture())
        await self._analyze(report)
        with _noting(report, "asking what blocks rotation"):
            report.blocked = {
                block.log: block.text for block in await self._session.run(ticks.rotation_blocks())
            }
        return report

    async def move_retries(self) -> int:
        """Move all retries that are due into their logs; return how many."""
        moved = 0
        while not self._is_stopping() and await self._session.run(ticks.retries_due()):
            count = await self._session.run(ticks.move_retries(MOVED_AT_ONCE))
            if not count:  # another process moves them
                break
            moved += count
        return moved

    async def _operate(self, report: Report) -> None:
        """Carry out the operations that PgQ asks for, in its order."""
        operations: list[Operation] = []
        with _noting(report, "listing what is to be maintained"):
            operations = await self._session.run(ticks.operations())
        with _noting(report, "looking for what maintenance leaves out"):
            for name, owners in await self._left_out():
                report.failed[name] = str(_untrusted(name, owners))
        for operation in operations:
            if self._is_stopping():
                return
            with _noting(report, str(operation)):
                await self._carry_out(operation)
                report.operations.append(str(operation))

    async def _left_out(self) -> list[tuple[str, str]]:
        """List the functions that the schema leaves out, with their owners; an older schema leaves out none."""
        try:
            return await self._session.run(ticks.left_out())
        except StorageError as error:
            if error.sqlstate in ticks.NOT_INSTALLED:
                return []
            raise

    async def _carry_out(self, operation: Operation) -> None:
        if operation.function in {"vacuum", "vacuum analyze"}:
            await self._vacuum(operation)
            return
        function = await self._session.run(ticks.find_function(operation.function))
        if function is None:
            raise StorageError(
                f"There is no function {operation.function}, which maintenance is to call; name it with its schema.",
                sqlstate=None,
                transient=False,
            )
        if function.untrusted is not None:
            raise _untrusted(operation.function, function.untrusted)
        for _call in range(CALLS_AT_ONCE):
            answer = await self._session.run(ticks.maintain(function.name, operation.argument))
            if self._is_stopping() or not _asks_for_more(answer):
                return

    async def _vacuum(self, operation: Operation) -> None:
        table = await self._session.run(ticks.find_table(operation.argument or ""))
        if table is None:
            return
        if table.foreign_owner is not None:  # the server would only warn
            raise PermissionDeniedError(
                f"Only its owner, {table.foreign_owner}, may vacuum {table.name}: let the ticker's role be a member "
                f"of it, or grant it MAINTAIN (PostgreSQL 17).",
                sqlstate="42501",
                transient=False,
            )
        await self._session.run(ticks.vacuum(table.name, analyze=operation.function == "vacuum analyze"))

    async def _analyze(self, report: Report) -> None:
        logs: list[str] = []
        with _noting(report, "looking for tables to analyse"):
            logs = await self._session.run(ticks.logs_to_analyze())
        for log in logs:
            if self._is_stopping():
                return
            with _noting(report, f"analyse {log}"):
                report.analyzed.append(await self._session.run(ticks.analyze(log)))


class Maintenance(Service):
    """Keeps a database's logs in order as long as its ticker leads. For one event loop."""

    def __init__(self, database: Database, settings: TickerSettings, alarm: Alarm) -> None:
        """Take the database whose logs to maintain. No I/O."""
        failure = "Maintenance of the logs failed"
        outages = ReportedBreaker("Maintenance of the logs", failure, logger, alarm)
        super().__init__("rowbus maintenance", outages)
        self._database = database
        self._retries = Recurring(settings.retry_delay.total_seconds(), alarm.clock)
        self._passes = Recurring(settings.maintenance_period.total_seconds(), alarm.clock)
        self._session: AsyncSession | None = None
        self._failures = Troubles()
        self._blocks = Troubles()

    async def work(self) -> None:
        """Do what is due, and wait for what is due next."""
        self._session = self._session or await open_maintenance(self._database)
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
            logger.warning("Maintenance failed (%s), and is tried again each time: %s", operation, error)
        for operation in failures.over:
            logger.info("Maintenance works again (%s).", operation)
        blocks = self._blocks.update(report.blocked)
        for log, reason in blocks.arisen:
            logger.warning("The tables of log %s cannot be rotated, so its events are kept: %s", log, reason)
        for log in blocks.over:
            logger.info("Nothing blocks the rotation of log %s any more.", log)


async def open_maintenance(database: Database) -> AsyncSession:
    """Open a session for maintenance. Raises as `open_session`."""
    return await ticks.open_session(
        database, ticks.configure(tick_period=None, lock_timeout=LOCK_TIMEOUT, idle_timeout=0)
    )


@contextmanager
def _noting(report: Report, what: str) -> Generator[None]:
    """Note an error in the report and go on; a lost connection is raised."""
    try:
        yield
    except ConnectionLostError:
        raise
    except StorageError as error:
        report.failed[what] = str(error)


def _untrusted(function: str, owners: str) -> PermissionDeniedError:
    return PermissionDeniedError(
        f"Maintenance leaves out {function}, for {owners} could change what it does, with this role's rights: let a "
        f"superuser, the owner of schema pgq or this role own it.",
        sqlstate="42501",
        transient=False,
    )


def _asks_for_more(answer: str | None) -> bool:
    """Read an operation's answer as pgqd does: a number other than 0 asks for another call."""
    return answer is not None and answer.strip("-0") != "" and answer.lstrip("-").isdigit()
