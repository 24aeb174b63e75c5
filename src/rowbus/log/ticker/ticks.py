"""Work of the ticker: its sessions, the statements that find and tick logs, and the passes that maintain them.

The database lists what is to be maintained (`pgq.maint_operations`), as for the stock pgqd. Each operation is called
again as long as it returns a number other than 0.

Invariants: nothing of schema pgq is called on a session before `check_rights` has checked its owner, so that no
superuser runs what an owner could gain its rights by; every statement is a transaction of its own when run on a session
in autocommit mode, and none waits for a lock longer than `configure` allows; the database decides whether a tick or a
rotation is due; an operation of maintenance that fails does not hold up the others.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.locks import TICKER
from rowbus.database.postgresql.locks import lock_holders
from rowbus.database.statements import Statement, each, load, no_rows, scalar
from rowbus.errors import ConfigurationError, ConnectionLostError, PermissionDeniedError, StorageError
from rowbus.log.queries import FOLDER, log_query
from rowbus.log.ticker.decisions import Wish

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from datetime import datetime

    from rowbus.database.locks import LockHolder
    from rowbus.database.postgresql.connection import AsyncSession
    from rowbus.database.postgresql.database import Database
    from rowbus.database.statements import Rows
    from rowbus.settings import TickerSettings

logger = logging.getLogger("rowbus.ticker")

LOCK_TIMEOUT: Final = 0.1  # seconds that a locked log may hold up the others, now and then
MAINTENANCE_LOCK_TIMEOUT: Final = 5.0  # seconds
NEVER: Final = timedelta(0)


class TickerRights(NamedTuple):
    """Rights that a ticker would lend to the functions it calls; the columns of `log/ticker/rights.sql`."""

    role: str
    is_superuser: bool
    schema_owner: str | None
    """The owner of schema pgq; None: there is none."""

    owner_is_superuser: bool
    owner_is_databases: bool
    is_private: bool
    """Whether only one user of the machine can connect to the server, as to the embedded one."""

    @property
    def obstacle(self) -> str | None:
        """Reason why this role must not run what is in schema pgq, and what to do; None if it may."""
        trusted = self.schema_owner is None or self.owner_is_superuser or self.owner_is_databases
        if trusted or not self.is_superuser:
            return None
        return (
            f"The schema pgq belongs to {self.schema_owner}, who is neither a superuser nor the owner of this "
            f"database, and whose functions a ticker runs: the superuser {self.role} would lend them all its rights. "
            f"Run the ticker as a role that is a member of pgq_admin and no superuser."
        )

    @property
    def warning(self) -> str | None:
        """Advice, if the role may do more than a ticker needs."""
        if not self.is_superuser or self.is_private:
            return None
        return (
            f"The ticker connects as the superuser {self.role}, and lends these rights to the functions it calls; "
            f"let it connect as a role that is a member of pgq_admin and no superuser."
        )


LOCK_TIMED_OUT = "55P03"
DROPPED_MEANWHILE = "XX000"
"""Of a look into a table that was there when it began: could not open relation."""
NOT_INSTALLED = frozenset({"3F000", "42P01", "42883"})  # no such schema, table, function


class Operation(NamedTuple):
    """Work for PgQ: `function` is a function's name, `vacuum` or `vacuum analyze`; `argument` what it takes."""

    function: str
    argument: str | None

    def __str__(self) -> str:
        return f"{self.function} {self.argument or ''}".strip()


class TableName(NamedTuple):
    """A table or function with its schema, as the catalogue spells them."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


class FoundFunction(NamedTuple):
    """A function that maintenance is to call; `untrusted` names owners of it that this role does not trust."""

    name: TableName
    untrusted: str | None


class FoundTable(NamedTuple):
    """A table to be vacuumed; `foreign_owner` is its owner if this role may not do that."""

    name: TableName
    foreign_owner: str | None


class RotationBlock(NamedTuple):
    """A log whose tables could not be rotated when it was time."""

    log: str
    since: datetime
    reason: str
    detail: str | None

    @property
    def text(self) -> str:
        """The reason and its detail."""
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


def configure(settings: TickerSettings | None, silence: timedelta = NEVER) -> Statement[None]:
    """Make a session fit for ticking by these settings, or for maintenance (None); the server ends it after a silence.

    Their period of ticks is for logs that have none of their own; None: as their `ticker_max_lag` says.
    """
    period = None if settings is None else settings.tick_period
    lock_timeout = MAINTENANCE_LOCK_TIMEOUT if settings is None else LOCK_TIMEOUT
    parameters = {
        "tick_period": "" if period is None else f"{period.total_seconds():f} seconds",
        "lock_timeout": round(lock_timeout * 1000),
        "idle_timeout": round(silence.total_seconds() * 1000),
    }
    return Statement(log_query("ticker/configure", "Failed to prepare a session"), parameters, no_rows)


def try_lead() -> Statement[bool]:
    """Become the one ticker of the database until the session ends; say whether that worked. Never waits."""
    query = log_query("ticker/try_lead", "Failed to look for other tickers")
    return Statement(query, {"lock_name": TICKER}, scalar)


def leaders() -> Statement[list[LockHolder]]:
    """Ask which session is the one ticker of the database."""
    return lock_holders(TICKER)


def rights() -> Statement[TickerRights]:
    """Say what this role would lend to the functions of schema pgq. Reads nothing of that schema."""
    return Statement(log_query("ticker/rights", "Failed to look for this role's rights"), {}, _rights)


async def open_session(
    database: Database, settings: TickerSettings | None, *, warns: bool = False
) -> AsyncSession:
    """Open and configure a session; see `configure`. With `warns`, log a warning if the role may do more than it needs.

    Raises ConnectionLostError, and ConfigurationError for a role that must not call functions of schema pgq.
    """
    session = await database.connect()
    try:
        await session.run(configure(settings))
        lent = await check_rights(session)
    except BaseException:
        await session.close()
        raise
    if warns and lent.warning is not None:
        logger.warning("%s", lent.warning)
    return session


async def check_rights(session: AsyncSession) -> TickerRights:
    """Return what the role lends; raise ConfigurationError if the schema's owner would gain a superuser's rights."""
    lent = await session.run(rights())
    if lent.obstacle is not None:
        raise ConfigurationError(lent.obstacle)
    return lent


def look(aside: Sequence[int] = (), *, only: int | None = None) -> Statement[list[Wish]]:
    """Find the logs that want a tick, now or soon, but for those put aside.

    On a session that was made fit by `configure`. Locks nothing, but waits while another session drops a log.
    """
    parameters = {"except": list(aside), "only": only}
    query = log_query("ticker/look", "Failed to look for logs that want a tick", prepare=True)
    return Statement(query, parameters, each(Wish._make))


def ticked_logs() -> Statement[list[tuple[int, str]]]:
    """List the logs that are to be ticked, by id and name."""
    return Statement(log_query("ticker/ticked_logs", "Failed to list the logs"), {}, _pairs)


def tick(log: str) -> Statement[int | None]:
    """Tick a log if one is due; return the tick's id, None if none was due.

    Needs READ COMMITTED (see `configure`); waits while another session drops or rotates the log.
    """
    return Statement(log_query("ticker/tick", f"Failed to tick {log}", prepare=True), {"log": log}, scalar)


# ------------------------------------------------------------------------------------------------------- maintenance


def retries_due() -> Statement[bool]:
    """Say whether an event's time to be delivered again has come."""
    return Statement(
        log_query("maintenance/retries_due", "Failed to look for retries", prepare=True), {}, scalar
    )


def move_retries(most: int) -> Statement[int]:
    """Move up to `most` due events from the retry queue into their logs; return how many were moved."""
    return Statement(log_query("maintenance/move_retries", "Failed to move retries"), {"most": most}, scalar)


def operations() -> Statement[list[Operation]]:
    """List what PgQ wants done now."""
    return Statement(
        log_query("maintenance/operations", "Failed to list what is to be maintained"),
        {},
        each(Operation._make),
    )


def left_out() -> Statement[list[tuple[str, str]]]:
    """List the functions that PgQ's rules want called and whose owners are not trusted, with these owners."""
    return Statement(log_query("maintenance/left_out", "Failed to list what is left out"), {}, _left_out)


def find_function(name: str) -> Statement[FoundFunction | None]:
    """Find a function by the name maintenance knows it by, and who of its owners is not trusted."""
    return Statement(
        log_query("maintenance/find_function", f"Failed to look for {name}"), {"name": name}, _function
    )


def find_table(name: str) -> Statement[FoundTable | None]:
    """Find a table by the name maintenance knows it by."""
    return Statement(
        log_query("maintenance/find_table", f"Failed to look for {name}"), {"name": name}, _found_table
    )


def maintain(function: TableName, argument: str | None) -> Statement[str | None]:
    """Carry out an operation and return its answer as text; `1` asks for another call."""
    names = {"schema": function.schema, "function": function.name}
    operation = "maintenance/maintain" if argument is None else "maintenance/maintain_log"
    failing = f"Failed to carry out {function} {argument or ''}".strip()
    query = load(f"{FOLDER}/{operation}.sql", identifiers=names, failing=failing, prepare=False)
    return Statement(query, {} if argument is None else {"argument": argument}, scalar)


def vacuum(table: TableName, *, analyze: bool) -> Statement[None]:
    """Vacuum a table. Not inside a transaction."""
    query = load(
        f"{FOLDER}/maintenance/vacuum.sql",
        identifiers={"schema": table.schema, "table": table.name},
        literals={"analyze": "true" if analyze else "false"},
        failing=f"Failed to vacuum {table}",
        prepare=False,
    )
    return Statement(query, {}, no_rows)


def logs_to_analyze() -> Statement[list[str]]:
    """List the logs whose previous table has not been analysed since it became that."""
    return Statement(
        log_query("maintenance/logs_to_analyze", "Failed to look for tables to analyse"),
        {},
        each(itemgetter(0)),
    )


def analyze(log: str) -> Statement[str]:
    """Gather the planner's statistics of a log's previous table; return the table's name."""
    return Statement(log_query("maintenance/analyze", f"Failed to analyse {log}"), {"log": log}, scalar)


def rotation_blocks() -> Statement[list[RotationBlock]]:
    """List the logs that could not be rotated when it was time, and why."""
    return Statement(
        log_query("maintenance/rotation_blocks", "Failed to ask what blocks rotation"),
        {},
        each(RotationBlock._make),
    )


def regenerate_capture() -> Statement[int]:
    """Generate anew what has gone stale of the functions that capture tables; return how many there were."""
    return Statement(
        log_query("capture/regenerate_capture", "Failed to regenerate capture functions"), {}, scalar
    )


def _pairs(rows: Rows, _count: int) -> list[tuple[int, str]]:
    return [(queue, name) for queue, name in rows]


def _function(rows: Rows, _count: int) -> FoundFunction | None:
    return FoundFunction(TableName._make(rows[0][:2]), rows[0][2]) if rows else None


def _rights(rows: Rows, _count: int) -> TickerRights:
    return TickerRights._make(rows[0])


def _found_table(rows: Rows, _count: int) -> FoundTable | None:
    return FoundTable(TableName._make(rows[0][:2]), rows[0][2]) if rows else None


def _left_out(rows: Rows, _count: int) -> list[tuple[str, str]]:
    return [(name, owners) for name, owners in rows]


# ------------------------------------------------------------------------------------------- a pass of maintenance

MOVED_AT_ONCE: Final = 1000  # events moved from the retry queue in one transaction
CALLS_AT_ONCE: Final = 1000  # calls of one operation before the others have their turn


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
    """Maintains logs on a session that is configured for it."""

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
            report.regenerated = await self._session.run(regenerate_capture())
        await self._analyze(report)
        with _noting(report, "asking what blocks rotation"):
            report.blocked = {block.log: block.text for block in await self._session.run(rotation_blocks())}
        return report

    async def move_retries(self) -> int:
        """Move all retries that are due into their logs; return how many."""
        moved = 0
        while not self._is_stopping() and await self._session.run(retries_due()):
            count = await self._session.run(move_retries(MOVED_AT_ONCE))
            if not count:  # another process moves them
                break
            moved += count
        return moved

    async def _operate(self, report: Report) -> None:
        """Carry out the operations that PgQ asks for, in its order."""
        listed: list[Operation] = []
        with _noting(report, "listing what is to be maintained"):
            listed = await self._session.run(operations())
        with _noting(report, "looking for what maintenance leaves out"):
            for name, owners in await self._left_out():
                report.failed[name] = str(_untrusted(name, owners))
        for operation in listed:
            if self._is_stopping():
                return
            with _noting(report, str(operation)):
                await self._carry_out(operation)
                report.operations.append(str(operation))

    async def _left_out(self) -> list[tuple[str, str]]:
        """List the functions that the schema leaves out, with their owners; an older schema leaves out none."""
        try:
            return await self._session.run(left_out())
        except StorageError as error:
            if error.sqlstate in NOT_INSTALLED:
                return []
            raise

    async def _carry_out(self, operation: Operation) -> None:
        if operation.function in {"vacuum", "vacuum analyze"}:
            await self._vacuum(operation)
            return
        function = await self._session.run(find_function(operation.function))
        if function is None:
            raise StorageError(
                f"There is no function {operation.function}, which maintenance is to call; name it with its schema.",
                sqlstate=None,
                transient=False,
            )
        if function.untrusted is not None:
            raise _untrusted(operation.function, function.untrusted)
        for _call in range(CALLS_AT_ONCE):
            answer = await self._session.run(maintain(function.name, operation.argument))
            if self._is_stopping() or not _asks_for_more(answer):
                return

    async def _vacuum(self, operation: Operation) -> None:
        table = await self._session.run(find_table(operation.argument or ""))
        if table is None:
            return
        if table.foreign_owner is not None:  # the server would only warn
            raise PermissionDeniedError(
                f"Only its owner, {table.foreign_owner}, may vacuum {table.name}: let the ticker's role be a member "
                f"of it, or grant it MAINTAIN (PostgreSQL 17).",
                sqlstate="42501",
                transient=False,
            )
        await self._session.run(vacuum(table.name, analyze=operation.function == "vacuum analyze"))

    async def _analyze(self, report: Report) -> None:
        logs: list[str] = []
        with _noting(report, "looking for tables to analyse"):
            logs = await self._session.run(logs_to_analyze())
        for log in logs:
            if self._is_stopping():
                return
            with _noting(report, f"analyse {log}"):
                report.analyzed.append(await self._session.run(analyze(log)))


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
