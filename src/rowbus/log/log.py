"""The event log as users hold it: append through a connection of theirs, consume through a database.

Invariant: on a connection that is the user's nothing is committed or rolled back here; what consumers do commits with
their position or not at all.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.borrowed import borrow, borrow_async
from rowbus.database.postgresql.database import Database
from rowbus.database.statements import run_steps, run_steps_now
from rowbus.errors import ConfigurationError
from rowbus.log.append import AppendingLog, AsyncAppendingLog
from rowbus.log.consumers.event_attempts import Keys
from rowbus.log.consumers.handlers import Caller, Consumer, check_lanes, takes_context
from rowbus.log.consumers.table import ConsumerTable
from rowbus.log.range import LogRange
from rowbus.messages.address import refuse_nul
from rowbus.messages.timestamps import with_zone
from rowbus.running.critical import Alarm, callback_of
from rowbus.running.loop_watch import LoopWatch
from rowbus.running.scope import beginning
from rowbus.running.service import Lifetime
from rowbus.running.setting_types import require_type
from rowbus.running.signals import Serving
from rowbus.settings import ConsumerSettings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Sequence

    from rowbus.contracts.describing import Collection
    from rowbus.database.postgresql.connection import AsyncSession, Session
    from rowbus.database.statements import Steps
    from rowbus.log.consumers.consumer import LogConsumer
    from rowbus.log.consumers.event_attempts import KeyFunction
    from rowbus.log.consumers.lanes import LogLanes
    from rowbus.log.event import DeadEvent, Event, Tick
    from rowbus.log.range import Bounds
    from rowbus.running.critical import OnCriticalError
    from rowbus.transport.lanes.rule import Lanes

logger = logging.getLogger("rowbus.log")

F = TypeVar("F", bound="Callable[..., Any]")  # a handler, returned as it was

READ_SIZE = 1000  # events that `read` has in memory
ALL = 2**62  # as many as there are


def _without_connection() -> Session:
    raise ConfigurationError(
        "Appending happens in a transaction of yours, and it has the position: give Log your connection instead of a "
        "database."
    )


async def _without_async_connection() -> AsyncSession:
    raise ConfigurationError(
        "Appending happens in a transaction of yours, and it has the position: give AsyncLog your connection instead "
        "of a database."
    )


class _RunningConsumers(NamedTuple):
    """Consumers that have begun, what calls their functions, and the watch over these."""

    consumers: list[tuple[LogConsumer | LogLanes, Caller]]
    watch: LoopWatch

    async def stop(self, timeout: float | None) -> None:  # noqa: ASYNC109 - a grace period
        """Finish what is in hand; after `timeout` seconds roll it back."""
        for _, caller in self.consumers:
            caller.stop()
        try:
            await asyncio.gather(*(consumer.stop(timeout) for consumer, _ in self.consumers))
        finally:
            self.watch.stop()
            for _, caller in self.consumers:
                await caller.close()


class Consuming(Serving):
    """The consumers of a log, and the process that runs them; common to `Log` and `AsyncLog`."""

    def __init__(
        self, connection_or_database: object, name: str, on_critical_error: OnCriticalError | None
    ) -> None:
        """Begin with none; ConfigurationError if the name holds NUL."""
        refuse_nul("log", name)
        self.name = name
        self.database = connection_or_database if isinstance(connection_or_database, str) else None
        """A connection string; None is ROWBUS_DATABASE, else the embedded server."""
        self._on_database = connection_or_database is None or self.database is not None
        self._alarm = Alarm(callback_of(on_critical_error, logger))
        self._consumers: list[Consumer] = []

    @cached_property
    def _lifetime(self) -> Lifetime[_RunningConsumers]:
        """The runs of its consumers; who only appends has none."""
        return Lifetime(self)

    @cached_property
    def _watch(self) -> LoopWatch:
        """The watch that names handlers which block the event loop; who only appends needs none."""
        return LoopWatch(["/rowbus/log/consumers/handlers.py"], logger)

    @cached_property
    def _range(self) -> LogRange:
        """The ticks and events that are retained; who only appends asks for none."""
        return LogRange(self.name)

    def consumer(
        self,
        name: str,
        *,
        batch: bool = False,
        key: str | KeyFunction | None = None,
        subconsumer: str | None = None,
        lanes: Lanes | None = None,
        settings: ConsumerSettings | None = None,
    ) -> Callable[[F], F]:
        """Register a handler of this log's events: `@log.consumer("revenue")`.

        The function takes an event, or with `batch` a list of events, and if it likes a context. `async def` handlers
        get a `LogContext`; `def` handlers run in a thread and get a `SyncLogContext`. `key`, a function of an event or
        the name of one of its fields, keeps the events of one key in order among the workers of the settings and
        behind a retry. `subconsumer` makes this process that subconsumer of a cooperative consumer. With
        `lanes=rowbus.by_key(8)` all processes share the events by their keys, whose order holds in all of them: each
        lane reads the log for itself. Raises ConfigurationError, also when the log is started.
        """
        if self._lifetime.run is not None:
            raise ConfigurationError(f"Log {self.name} is started: register its consumers before.")
        if callable(name) or not name:
            raise ConfigurationError(
                'A consumer needs a name, under which its position is kept: @log.consumer("revenue").'
            )
        require_type("name", name, str, "text")
        require_type("batch", batch, bool, "True or False")
        require_type("subconsumer", subconsumer, str | None, "its name, or None")
        require_type("settings", settings, ConsumerSettings | None, "rowbus.ConsumerSettings(…)")
        chosen = settings or ConsumerSettings()
        for kind, given in (("consumer", name), ("subconsumer", subconsumer or "")):
            refuse_nul(kind, given)
        keys = Keys(key)
        if chosen.workers > 1 and not keys:
            raise ConfigurationError(
                f"Consumer {name} has {chosen.workers} workers: say by `key` which events have to stay in order."
            )
        if lanes is not None:
            check_lanes(name, lanes, keys, subconsumer, chosen)
        self._require_database()

        def register(function: F) -> F:
            takes_context(function)
            self._consumers.append(
                Consumer(self.name, name, subconsumer, function, batch, keys, chosen, lanes)
            )
            return function

        return register

    async def start(self) -> None:
        """Register the consumers that are not yet and begin.

        Raises ConfigurationError for a log without consumers, LogNotFoundError, StorageError.
        """
        await self._lifetime.begin(self._begin)

    async def _begin(self) -> _RunningConsumers:
        self._require_database()
        self.require_consumers()
        dsn = await asyncio.to_thread(resolve_dsn, self.database)
        running = _RunningConsumers([], self._watch)
        for consumer in self._consumers:
            database = Database(
                dsn,
                application_name=f"rowbus {self.name}/{consumer.name}",
                prepared_statements=consumer.settings.prepared_statements,
            )
            fitting = consumer._replace(settings=await _fitting(consumer.settings, database))
            running.consumers.append(fitting.build(database, self._alarm))
        self._watch.start()
        try:
            with beginning(self):
                await asyncio.gather(*(consumer.start() for consumer, _ in running.consumers))
        except BaseException:
            await running.stop(timeout=0)
            raise
        return running

    def _describe(self, found: Collection) -> None:
        for one in self._consumers:
            found.add_reader(one.log, one.name)

    def require_consumers(self) -> None:
        """Raise ConfigurationError if nothing reads a log that is to be served."""
        if not self._consumers:
            raise ConfigurationError(
                f"Log {self.name} has no consumers, so nothing would be read. Import the modules with its "
                "@log.consumer functions before it runs."
            )

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Finish what is in hand, and end; after `timeout` seconds what is in hand is rolled back.

        Raises HandlerError in a handler of its own.
        """
        await self._lifetime.end(timeout)

    def _require_database(self) -> None:
        if not self._on_database:
            raise ConfigurationError(
                f'Consumers need connections of their own: Log("postgresql://…", "{self.name}").'
            )


class Log(Consuming, AppendingLog):
    """A log, on your synchronous connection or on a database.

    ```python
    with psycopg.connect(dsn) as connection, connection.transaction():
        rowbus.Log(connection, "orders").append({"order": 42}, type="order_placed")

    log = rowbus.Log("postgresql://…", "orders")


    @log.consumer("revenue")
    async def revenue(event: rowbus.Event, context: rowbus.LogContext) -> None: ...


    log.run()
    ```
    """

    def __init__(
        self,
        connection_or_database: object,
        name: str,
        *,
        on_critical_error: OnCriticalError | None = None,
    ) -> None:
        """Use a connection, which stays yours, or the database of a connection string.

        None: the database of the environment variable ROWBUS_DATABASE, else the embedded server. Raises
        ConfigurationError for connections of other libraries. No I/O. `on_critical_error(text, error)` is called, once
        for each outage, when a consumer has failed for 30 s.
        """
        super().__init__(connection_or_database, name, on_critical_error)
        self._borrowed = _without_connection if self._on_database else borrow(connection_or_database)

    @contextmanager
    def _session(self) -> Generator[Session]:
        """Give the user's connection as a session, or one of ours for this use."""
        if not self._on_database:
            yield self._borrowed()
            return
        with Database(resolve_dsn(self.database)).session() as session:
            yield session

    # --- reading

    def position(self) -> int:
        """Return the number of your transaction: where it is among those that ticks and lakes show.

        The token that `rowbus.lake.visible` waits for; good once your transaction has committed. Outside of one it is
        that of an empty transaction, after all that the connection has committed. Raises StorageError.
        """
        return self._borrowed().run(self._range.transaction())

    def ticks(self, after: int = 0) -> list[Tick]:
        """List the ticks that are retained, those after one; the oldest first. Raises LogNotFoundError."""
        with self._session() as session:
            return run_steps_now(session, _ticks(self._range, after))

    def read(
        self, from_tick: int | None = None, to_tick: int | None = None, *, consumer: str | None = None
    ) -> Generator[Event]:
        """Read the events between two ticks, by number; any number of times, beside any consumers.

        From the oldest tick retained, to the newest, unless given. Retried events are left out, but for those of
        `consumer`. Memory is bounded; one transaction is open until the iterator is exhausted or closed. Raises
        LostPositionError when a tick is not retained, LogNotFoundError.
        """
        with self._session() as session, session.transaction():
            bounds = session.run(self._range.bounds())
            span = _span(self.name, bounds, from_tick, to_tick)
            reading = self._range.reading(*span, consumer, READ_SIZE)
            session.run(reading.open)
            with suppress(GeneratorExit):
                while events := session.run(reading.fetch):
                    yield from events
            session.run(reading.close)

    # --- consumers

    def seek(self, consumer: str, *, tick: int | None = None, time: datetime | None = None) -> int:
        """Move a consumer to a tick, or to the last one not after a time, or else to the end; return the tick.

        A batch in its hands is taken from it, and rolled back. In your transaction, or in one of its own. Raises
        ConfigurationError for both, ConsumerNotFoundError, LostPositionError, LogNotFoundError.
        """
        _require_one_target(tick, time)
        with self._session() as session:
            return run_steps_now(session, _seek(self._range, consumer, tick, time))

    def unregister(self, consumer: str) -> bool:
        """Remove a consumer with its retry queue, so that it no longer holds events back; false if there is none.

        A batch of a cooperative consumer's member (`mailing.worker-2`) goes to the others.
        """
        with self._session() as session:
            return run_steps_now(session, ConsumerTable(self.name, consumer).unregister())

    def dead_letters(self, consumer: str, *, most: int = ALL) -> list[DeadEvent]:
        """List the events that a consumer has given up on, the oldest first."""
        with self._session() as session:
            return session.run(ConsumerTable(self.name, consumer).dead_letters(most))

    def replay(self, consumer: str, ids: Sequence[int] | None = None) -> int:
        """Have dead letters delivered to the consumer again, all or those of these ids; return how many."""
        with self._session() as session:
            return session.run(ConsumerTable(self.name, consumer).replay(ids))

    def purge(self, consumer: str, *, before: datetime | None = None) -> int:
        """Delete a consumer's dead letters, all or those from before a time; return how many."""
        with self._session() as session:
            return session.run(ConsumerTable(self.name, consumer).purge(_checked("before", before)))


class AsyncLog(Consuming, AsyncAppendingLog):
    """The asynchronous twin of `Log`."""

    def __init__(
        self,
        connection_or_database: object,
        name: str,
        *,
        on_critical_error: OnCriticalError | None = None,
    ) -> None:
        """Use a connection, which stays yours, or a database; see `Log`."""
        super().__init__(connection_or_database, name, on_critical_error)
        self._borrowed = (
            _without_async_connection if self._on_database else borrow_async(connection_or_database)
        )

    @asynccontextmanager
    async def _session(self) -> AsyncGenerator[AsyncSession]:
        if not self._on_database:
            yield await self._borrowed()
            return
        session = await Database(await asyncio.to_thread(resolve_dsn, self.database)).connect()
        try:
            yield session
        finally:
            await session.close()

    # --- reading

    async def position(self) -> int:
        """Return the number of your transaction; see `Log.position`."""
        return await (await self._borrowed()).run(self._range.transaction())

    async def ticks(self, after: int = 0) -> list[Tick]:
        """List the ticks that are retained; see `Log.ticks`."""
        async with self._session() as session:
            return await run_steps(session, _ticks(self._range, after))

    async def read(
        self, from_tick: int | None = None, to_tick: int | None = None, *, consumer: str | None = None
    ) -> AsyncGenerator[Event]:
        """Read the events between two ticks; see `Log.read`."""
        async with self._session() as session, session.transaction():
            bounds = await session.run(self._range.bounds())
            span = _span(self.name, bounds, from_tick, to_tick)
            reading = self._range.reading(*span, consumer, READ_SIZE)
            await session.run(reading.open)
            with suppress(GeneratorExit):
                while events := await session.run(reading.fetch):
                    for event in events:
                        yield event
            await session.run(reading.close)

    # --- consumers

    async def seek(self, consumer: str, *, tick: int | None = None, time: datetime | None = None) -> int:
        """Move a consumer; see `Log.seek`."""
        _require_one_target(tick, time)
        async with self._session() as session:
            return await run_steps(session, _seek(self._range, consumer, tick, time))

    async def unregister(self, consumer: str) -> bool:
        """Remove a consumer with its retry queue; see `Log.unregister`."""
        async with self._session() as session:
            return await run_steps(session, ConsumerTable(self.name, consumer).unregister())

    async def dead_letters(self, consumer: str, *, most: int = ALL) -> list[DeadEvent]:
        """List the events that a consumer has given up on, the oldest first."""
        async with self._session() as session:
            return await session.run(ConsumerTable(self.name, consumer).dead_letters(most))

    async def replay(self, consumer: str, ids: Sequence[int] | None = None) -> int:
        """Have dead letters delivered to the consumer again; see `Log.replay`."""
        async with self._session() as session:
            return await session.run(ConsumerTable(self.name, consumer).replay(ids))

    async def purge(self, consumer: str, *, before: datetime | None = None) -> int:
        """Delete a consumer's dead letters; see `Log.purge`."""
        async with self._session() as session:
            return await session.run(ConsumerTable(self.name, consumer).purge(_checked("before", before)))


def _span(log: str, bounds: Bounds, from_tick: int | None, to_tick: int | None) -> tuple[int, int]:
    start = bounds.oldest if from_tick is None else from_tick
    end = bounds.newest if to_tick is None else to_tick
    return bounds.retained(log, start), bounds.retained(log, end)


async def _fitting(settings: ConsumerSettings, database: Database) -> ConsumerSettings:
    """Return the settings as they suit a database: through a pooler no lock or notification is a session's."""
    if not settings.notifications or await asyncio.to_thread(database.keeps_sessions):
        return settings
    logger.info(
        "A pooler lends connections of %s for one transaction at a time: no process stands by, and consumers look for "
        "ticks every %s s",
        database.name,
        settings.poll_delay.total_seconds(),
    )
    return replace(settings, notifications=False, stand_by=False)


def _checked(name: str, time: datetime | None) -> datetime | None:
    require_type(name, time, datetime | None, "a datetime; without a zone it is UTC")
    return None if time is None else with_zone(time)


def _require_one_target(tick: int | None, time: datetime | None) -> None:
    require_type("tick", tick, int | None, "the number of a tick")
    if tick is not None and time is not None:
        raise ConfigurationError("A consumer is moved either to a tick or to a time: give one of them.")


def _ticks(log: LogRange, after: int) -> Steps[list[Tick]]:
    yield log.find()
    ticks: list[Tick] = yield log.ticks(after, ALL)
    return ticks


def _seek(log: LogRange, consumer: str, tick: int | None, time: datetime | None) -> Steps[int]:
    time = _checked("time", time)
    bounds: Bounds = yield log.bounds()
    if tick is None and time is None:
        target = bounds.newest
    else:
        target = bounds.retained(log.log, tick if time is None else (yield log.tick_at(time)))
    yield from ConsumerTable(log.log, consumer).move(target)
    return target
