"""The hold of a stream on a log: a consumer's registration, locked, moved up behind the durable offsets; and positions.

One session beside the driver looks up, decides and holds; it is replaced when it is lost.

The registration only follows the stream and opens no batch, because snapshots name what is read. A position is what
options name: the tick where a query begins, or a batch ends.

Invariants: on a new session `on_connect` runs first and takes the lock again; `move_up_hold` goes forwards
only, and the registration never passes what Spark has made durable; a consumer has one live query: its session holds
the session-level advisory lock that the consumers of `rowbus.log` take, too (`ConsumerTable.try_lead`), and loses it
with its process; a position is a retained tick, whose snapshot goes into the offset.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from rowbus.database.locks import describe, hold_lock, require_sessions
from rowbus.database.postgresql.database import Database
from rowbus.database.postgresql.faults import retrying
from rowbus.database.statements import Statement, control, load, no_rows, scalar
from rowbus.errors import (
    ConfigurationError,
    ConnectionLostError,
    ConsumerBusyError,
    DataLossError,
    LogNotFoundError,
    LostPositionError,
    StorageError,
)
from rowbus.log.consumers.table import ConsumerTable, log_not_found
from rowbus.messages.address import refuse_nul
from rowbus.spark.log_source.offset import LogOffset, offset_from_json
from rowbus.spark.log_source.snapshot_range import (
    find_tick,
    find_tick_at,
    hold_table,
    list_logs,
    prepare_control,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rowbus.database.locks import LockHolder
    from rowbus.database.postgresql.connection import Session
    from rowbus.database.statements import Query, Rows
    from rowbus.spark.log_source.offset import TickPosition
    from rowbus.spark.log_source.options import Edge, LogSettings
    from rowbus.spark.log_source.snapshot_range import RetainedLog


logger = logging.getLogger("rowbus.spark")

T = TypeVar("T")

_FOLDER = "spark/log_source/sql/postgresql"

PAUSE = 0.05  # seconds between two looks at a lock
LOOK = 10.0  # seconds between two looks at the registration of an idle stream

BEGIN = control(
    b"begin transaction isolation level read committed read only", "Could not begin to hold tables"
)


class Control:
    """One session at a time to one database."""

    def __init__(self, dsn: str, settings: LogSettings, role: str) -> None:
        """Take the address; `role` is part of the application name. No I/O."""
        name = settings.consumer or settings.name
        self._who = f"A stream that reads as {name}"
        self._database = Database(dsn, application_name=f"rowbus spark {role} {name}")
        self._retries: int = settings.options["fetchOffset.numRetries"]
        self._wait: float = settings.options["fetchOffset.retryIntervalMs"] / 1000
        self._timeout: int = settings.options["statementTimeoutMs"]
        self._open: ExitStack | None = None
        self._session: Session | None = None
        self._listening: set[bytes] = set()
        self.on_connect: Callable[[Session], None] = lambda _session: None

    def run(self, statement: Statement[T]) -> T:
        """Run a statement by itself; repeats it on a new session if the connection is lost."""
        return self._retrying(lambda session: session.run(statement))

    def require_sessions(self) -> None:
        """Raise ConfigurationError where a lock is no session's."""
        self._retrying(lambda _session: require_sessions(self._database, self._who))

    def run_last(self, *statements: Statement[T]) -> T:
        """Run statements in one transaction, and return the last one's answer."""

        def together(session: Session) -> T:
            with session.transaction():
                return [session.run(statement) for statement in statements][-1]

        return self._retrying(together)

    def hold_tables(self, names: Sequence[str]) -> None:
        """Lock tables against TRUNCATE until the session is closed, by a transaction that stays open."""

        def hold(session: Session) -> None:
            session.run(BEGIN)
            for name in names:
                session.run(hold_table(name))

        self._retrying(hold)

    def wait(self, listening: Sequence[Statement[None]], seconds: float) -> None:
        """Wait for a notification of these LISTEN statements, at most so long; a lost connection waits in full."""
        until = time.monotonic() + seconds
        try:
            session = self._session or self._connect()
            for statement in listening:
                if statement.query.text not in self._listening:
                    session.run(statement)
                    self._listening.add(statement.query.text)
            session.notified(seconds)
        except StorageError:
            self.close()  # the next call connects again, or raises
            time.sleep(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """Close the session, which ends its locks; does nothing when there is none."""
        opened, self._open, self._session = self._open, None, None
        self._listening.clear()
        if opened is not None:
            opened.close()

    def _retrying(self, work: Callable[[Session], T]) -> T:
        def attempt() -> T:
            try:
                return work(self._session or self._connect())
            except ConnectionLostError:
                self.close()
                raise

        return retrying(attempt, retries=self._retries, first=self._wait)

    def _connect(self) -> Session:
        self._open = ExitStack()
        try:
            session = self._open.enter_context(self._database.session())
            session.run(prepare_control(self._timeout))
            self.on_connect(session)
        except BaseException:
            self.close()
            raise
        self._session = session
        return session


# Logs, and positions in them.


def find_logs(control: Control, settings: LogSettings) -> list[RetainedLog]:
    """Return the states of all logs that the options name; raises LogNotFoundError."""
    states = control.run(list_logs(settings.logs, settings.pattern))
    missing = set(settings.logs) - {state.log for state in states}
    if missing:
        raise log_not_found(min(missing))
    if not states:
        raise LogNotFoundError(
            f"There is no log whose name matches {settings.pattern!r}.", log=settings.pattern
        )
    return states


def find_offset(control: Control, state: RetainedLog, wanted: Edge, committed: int | None) -> LogOffset:
    """Find where one log begins or ends; `committed` is its consumer's tick, if it is registered.

    With `latest`, a registered consumer continues from its tick: it skips no event, and a first batch that is repeated
    begins at the same tick.
    """
    where = wanted.of(state.log)
    if isinstance(where, dict):
        return offset_from_json(where, where)
    if isinstance(where, datetime):
        return LogOffset(_at_time(control, state, where, wanted))
    if isinstance(where, int):
        return LogOffset(_at_tick(control, state, where))
    if where in {"committed", "latest"} and committed is not None:
        return LogOffset(_at_tick(control, state, committed))
    return LogOffset(newest(state) if where == "latest" else oldest(state))


def stranger(run: Run, log: str, at: TickPosition, consumer: str) -> DataLossError | None:
    """Return the error for a tick that is of another history than the log's; None for one of its own."""
    row = run(find_tick(log, at.tick))
    found = run(list_logs([log]))
    if not found or found[0].has_made(at, row):
        return None
    oldest, last = found[0].oldest, found[0].newest
    here = (
        f"tick {row.tick} here is of {row.ts}"
        if row
        else f"the newest tick here is {last.tick if last else None}"
    )
    return DataLossError(
        f"Log {log} is not the one that {consumer} has read: that had tick {at.tick} at {at.ts}, and {here}. The "
        "database was restored, or the log made anew. Restore the checkpoint of that moment, too, or take a new one "
        "and write anew what was written; with failOnDataLoss=false a query goes on with the oldest events there are. "
        "A lake or a replica is copied anew by --resync '*'.",
        log=log,
        consumer=consumer,
        tick=at.tick,
        oldest=oldest.tick if oldest else None,
    )


def newest(state: RetainedLog) -> TickPosition:
    """Return a log's newest tick; raises LostPositionError when it has none."""
    return _required(state, state.newest)


def oldest(state: RetainedLog) -> TickPosition:
    """Return a log's oldest tick; raises LostPositionError when it has none."""
    return _required(state, state.oldest)


def _required(state: RetainedLog, position: TickPosition | None) -> TickPosition:
    if position is None:
        raise LostPositionError(
            f"Log {state.log} has no ticks; is its ticker running?", log=state.log, tick=None, oldest=None
        )
    return position


def _at_tick(control: Control, state: RetainedLog, number: int) -> TickPosition:
    found = control.run(find_tick(state.log, number))
    if found is None:
        retained = f"{oldest(state).tick} to {newest(state).tick}"
        raise LostPositionError(
            f"Tick {number} of log {state.log} is not retained; those retained are {retained}.",
            log=state.log,
            tick=number,
            oldest=oldest(state).tick,
        )
    return found


def _at_time(control: Control, state: RetainedLog, time: datetime, wanted: Edge) -> TickPosition:
    if time <= datetime.fromisoformat(newest(state).ts):
        return control.run(find_tick_at(state.log, time)) or oldest(state)
    if wanted.strategy == "error":
        raise ConfigurationError(
            f"Log {state.log} has no tick as late as {time.isoformat()}: the newest is of {newest(state).ts}. "
            "startingOffsetsByTimestampStrategy=latest begins there."
        )
    return newest(state)


# The hold on a log.


class HoldState(NamedTuple):
    """A consumer's registration."""

    owner: int
    """The subscription's number: events that were retried for this consumer carry it."""

    tick: int | None
    batch: int | None
    """A batch that another process has open as this consumer."""

    members: int
    """The number of cooperative members of the consumer."""


class LogHold:
    """Statements on one consumer of one log; each runs in its runner's transaction."""

    def __init__(self, log: str, consumer: str) -> None:
        """Bind the SQL files to names; ConfigurationError if one holds NUL. No I/O."""
        for kind, name in (("log", log), ("consumer", consumer)):
            refuse_nul(kind, name)
        self.log = log
        self.consumer = consumer
        self._names = {"log": log, "consumer": consumer}

    def try_lock(self) -> Statement[bool]:
        """Try to lock the consumer until the session ends. Never waits."""
        return ConsumerTable(self.log, self.consumer).try_lead()

    def holders(self) -> Statement[list[LockHolder]]:
        """Return the holders of that lock."""
        return ConsumerTable(self.log, self.consumer).leaders()

    def find_hold(self) -> Statement[HoldState | None]:
        """Return the registration; None when there is none."""
        return Statement(self._load("find_hold"), self._names, _state)

    def place_hold(self, tick: int) -> Statement[int]:
        """Register at a tick, or move there, also backwards; returns 1 if it was registered now."""
        return Statement(self._load("place_hold"), {**self._names, "tick": tick}, scalar)

    def lock_hold(self) -> Statement[None]:
        """Lock the position until the transaction ends. Waits."""
        return Statement(self._load("lock_hold"), {"lock_name": hold_lock(self.log, self.consumer)}, no_rows)

    def move_up_hold(self, tick: int) -> Statement[int | None]:
        """Release events before a tick; returns the new position, None when it did not move.

        Run it after `lock_hold`, in the same transaction.
        """
        parameters = {**self._names, "tick": tick}
        return Statement(self._load("move_up_hold"), parameters, _moved)

    def _load(self, operation: str) -> Query:
        return load(
            f"{_FOLDER}/{operation}.sql",
            failing=f"Could not look after the position of {self.log}/{self.consumer}",
            log=self.log,
            prepare=False,
        )


def _state(rows: Rows, _count: int) -> HoldState | None:
    return HoldState._make(rows[0]) if rows else None


def _moved(rows: Rows, _count: int) -> int | None:
    return rows[0][0] if rows else None


class Run(Protocol):
    """A function that runs a statement."""

    def __call__(self, statement: Statement[T], /) -> T:
        """Run the statement and return its result."""
        ...


class LogKeeper:
    """A consumer's registrations with the logs of one stream."""

    def __init__(self, control: Control, consumer: str, lock_timeout: float) -> None:
        """Use the session of the stream's driver side; the timeout is in seconds. No I/O."""
        self._control = control
        self._consumer = consumer
        self._lock_timeout = lock_timeout
        self._locked: list[str] = []
        self._held: dict[str, int] = {}
        self._look_at = time.monotonic() + LOOK
        control.on_connect = self._lock_again

    def lock(self, log: str) -> None:
        """Lock the consumer; raises ConsumerBusyError, which names the holder of the lock, and ConfigurationError."""
        if log not in self._locked:
            self._control.require_sessions()
            self._take(self._control.run, log)
            self._locked.append(log)

    def state(self, log: str) -> HoldState | None:
        """Return the registration; raises ConsumerBusyError when a consumer outside Spark uses it."""
        state = self._control.run(LogHold(log, self._consumer).find_hold())
        if state is not None and (state.batch is not None or state.members):
            use = f"has batch {state.batch} open" if state.members == 0 else "is a cooperative consumer"
            raise self._busy(
                log,
                f"{self._consumer} {use}: it also consumes outside Spark. Give the stream a name of its own, or "
                f"take the batch away with `rowbus log seek {log} {self._consumer} …`.",
            )
        return state

    def place(self, log: str, tick: int) -> None:
        """Retain events from a tick on, before or after the present position."""
        self._control.run(LogHold(log, self._consumer).place_hold(tick))
        self._held[log] = tick

    def release(self, offsets: Mapping[str, LogOffset]) -> list[str]:
        """Release events before the ticks of durable offsets; return the logs whose registrations somebody has removed.

        Looks for those where there is something to release, and from time to time.
        """
        moved = [log for log, offset in offsets.items() if self._held.get(log, -1) < offset.at.tick]
        for log in moved:
            hold, tick = LogHold(log, self._consumer), offsets[log].at.tick
            self._control.run_last(hold.lock_hold(), hold.move_up_hold(tick))
            self._held[log] = tick
        if time.monotonic() > self._look_at:
            self._look_at, moved = time.monotonic() + LOOK, list(offsets)
        return [log for log in moved if self._control.run(LogHold(log, self._consumer).find_hold()) is None]

    def _lock_again(self, session: Session) -> None:
        for log in self._locked:
            self._take(session.run, log)

    def _take(self, run: Run, log: str) -> None:
        hold = LogHold(log, self._consumer)
        deadline = time.monotonic() + self._lock_timeout
        while not run(hold.try_lock()):
            if time.monotonic() > deadline:
                raise self._busy(
                    log,
                    f"Another query reads log {log} as {self._consumer}: {describe(run(hold.holders()))}. "
                    "Only one may; stop it, or give this one another consumer name.",
                )
            time.sleep(PAUSE)

    def _busy(self, log: str, message: str) -> ConsumerBusyError:
        return ConsumerBusyError(message, log=log, consumer=self._consumer)
