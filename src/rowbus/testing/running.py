"""Endpoints and consumers that run in a test: started, drained, and stopped with nothing left over.

Time passes by moving what waits: `drain` makes the delayed messages due earlier, all by the same span, and leaves the
clocks alone. So what the database says of the time stays true, and messages keep their order and their distances.

Invariant: at the end of the block all is stopped, and each endpoint has the database that it had before.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, overload

from rowbus import ConfigurationError
from rowbus.database.location import is_temporary
from rowbus.database.postgresql.database import Database
from rowbus.endpoint.dependencies import replacing
from rowbus.endpoint.endpoint import Endpoint
from rowbus.messages.address import address_of
from rowbus.messages.headers import Header
from rowbus.testing import record
from rowbus.testing.outcome import SentMessage
from rowbus.testing.record import Move, State, next_move, time_to_pass
from rowbus.transport.client import AsyncClient
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.long_work.table import COLUMNS, long_work_address, long_work_table
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.installer import create_queue

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence
    from types import TracebackType
    from typing import Unpack

    from rowbus.database.sessions import AsyncSession
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.messages.outgoing import UniqueMessageId
    from rowbus.transport.receiving.receiver import Receiver
    from rowbus.transport.send_verbs import SendOptions, UniqueOptions

T = TypeVar("T")

PATIENCE: Final = 30.0  # seconds until `drain` gives up
PAUSE: Final = 0.005  # seconds between two looks
GRACE: Final = 5.0  # seconds that handlers have at the end of the block


class Runs(Protocol):
    """A thing that runs in a test: an endpoint, or a log's consumers."""

    database: str | None

    async def start(self) -> None:
        """Begin."""

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """End."""


class Running:
    """The run of a test, inside of `async with running(…) as bus`."""

    def __init__(self, session: AsyncSession, endpoints: Sequence[Endpoint], *, has_logs: bool) -> None:
        """Look at the database through a session; see `running`. No I/O."""
        self._session = session
        self._endpoints = endpoints
        self._has_logs = has_logs
        self._loop = asyncio.get_running_loop()
        self._tables: dict[str, QueueAddress] = {}
        tables = [endpoint.parts.delayed for endpoint in endpoints]
        self._delayed = [table for table in tables if table is not None]
        self._inputs = [address for endpoint in endpoints for address in endpoint.parts.inputs]
        self._long: list[QueueAddress] = []
        self._after = 0

    @overload
    async def send(
        self, destination: str | QueueAddress, message: object, **options: Unpack[SendOptions]
    ) -> str: ...
    @overload
    async def send(
        self, destination: str | QueueAddress, message: object, **options: Unpack[UniqueOptions]
    ) -> UniqueMessageId: ...

    async def send(self, destination: str | QueueAddress, message: object, **options: Any) -> str:
        """Send a message, as a client does, and return its message id; otherwise as `Client.send`.

        A name means a queue in the schema of the first endpoint that runs here.
        """
        address = address_of(destination, self._addresses)
        message_id: str = await AsyncClient(self._session.connection).send(address, message, **options)
        return message_id

    async def drain(self, *, delays: bool = True, timeout: float = PATIENCE) -> None:  # noqa: ASYNC109 - the wait is its point
        """Wait until all is processed: queues empty, no message delayed, log consumers at the end of their logs.

        Delayed messages and retries need no waiting: whenever nothing else is left, time passes until the next one is
        due. Without `delays` only what is due now is processed. Logs are ticked here, if consumers run. Raises
        TimeoutError after so many seconds, as for a message that sends itself again and again.
        """
        await self._process(None if delays else timedelta(), timeout)

    async def advance(self, time: timedelta, *, timeout: float = PATIENCE) -> None:  # noqa: ASYNC109 - as above
        """Let so much time pass at once: process what becomes due in it, in its order. Raises as `drain`."""
        await self._process(time, timeout)

    async def sent(self, to: str | QueueAddress | None = None) -> list[SentMessage]:
        """Return what was sent, to all queues or to one, since the block began: in order, and if it was committed.

        Endpoints or clients may have sent it; failed messages are in the error queue's. A message that was delayed, or
        moved or retried later, is there once; its `due` says until when.
        """
        wanted = None if to is None else address_of(to, self._addresses)
        found: dict[object, SentMessage] = {}
        for noted in await self._session.run(record.sent(self._after)):
            destination, headers = noted.destination(self._tables), noted.readable_headers()
            key = (headers.get(Header.MESSAGE_ID) or noted.position, destination)
            if (wanted is None or destination == wanted) and key not in found:
                headers.pop(Header.FORWARD_DESTINATION, None)
                found[key] = SentMessage(
                    destination, headers, noted.body, None, immediate=False, due=noted.due
                )
        return list(found.values())

    @property
    def _addresses(self) -> Addresses:
        return self._endpoints[0].addresses

    @property
    def _ordered(self) -> list[Receiver]:
        return [receiver for endpoint in self._endpoints for receiver in endpoint.ordered_receivers]

    async def prepare(self) -> None:
        """Have everything that is sent from now on noted."""
        catalog = catalog_of(self._addresses)
        shapes = await self._session.run(catalog.find_queues())
        queues = [shape.address for shape in shapes if shape.is_queue]
        delayed = await self._session.run(catalog.find_delayed())
        self._tables = {address.canonical: address for address in (*queues, *delayed)}
        own = [long_work_address(endpoint.name, endpoint.addresses) for endpoint in self._endpoints]
        self._long = [one for one in await _find_long(self._session, self._addresses) if one in own]
        async with self._session.transaction():
            await self._session.run_all(record.create_record())
            await self._session.run_all([record.record(address) for address in self._tables.values()])
        self._after = await self._session.run(record.position())

    # --- draining

    async def _process(self, left: timedelta | None, timeout: float) -> None:  # noqa: ASYNC109 - passed on
        if asyncio.get_running_loop() is not self._loop:
            raise ConfigurationError(
                "Here is another event loop than where the endpoints run: give a fixture with `async with running(…)` "
                "and its tests one loop (pytest-asyncio: loop_scope)."
            )
        deadline = self._loop.time() + timeout
        ticked = not self._has_logs
        while True:
            state = await self._look()
            ticked = ticked and not (state.queued and self._has_logs)
            move = next_move(state, ticked=ticked, left=left)
            if move is Move.END:
                return
            if self._loop.time() > deadline:
                raise TimeoutError(f"After {timeout:g} s there still are {state}.")
            ticked = ticked or move is Move.TICK
            left = await self._do(move, state, left)

    async def _do(self, move: Move, state: State, left: timedelta | None) -> timedelta | None:
        """Carry a move out; return what is left of the time that may pass."""
        if move is Move.WAIT:
            await asyncio.sleep(PAUSE)
        elif move is Move.RETRY:
            await self._session.run_all(record.retry_now())
        elif move is Move.TICK:
            await self._session.run(record.tick())
        elif move is Move.ADVANCE:
            time = time_to_pass(state.next_due, left)
            await self._let_pass(time)
            return None if left is None else left - time
        return left

    async def _look(self) -> State:
        """Return how all stands at one moment."""
        queued, due = 0, list[float]()
        catalog, session = catalog_of(self._addresses), self._session
        waiting = {one.address: [*one.book.held().values()] for one in self._ordered}
        async with session.transaction():
            await session.run(record.one_state())
            for address in self._inputs:
                waits = waiting.get(address, [])
                depth = (await session.run(catalog.queue_state(address, len(waits) + 1))).depth
                queued += max(depth - len(waits), 0)
                due += waits if depth else []
            for address in self._long:
                queued += len(await session.run(long_work_table(address).list()))
            for address in self._delayed:
                seconds = await session.run(delayed_table(address).next_due())
                due += [] if seconds is None else [seconds]
            logs = (await session.run(record.log_state())) if self._has_logs else record.LogState(0, 0, 0)
        return State(queued, timedelta(seconds=min(due)) if due else None, *logs)

    async def _let_pass(self, time: timedelta) -> None:
        for receiver in self._ordered:
            receiver.let_pass(time.total_seconds())
        async with self._session.transaction():
            for address in self._delayed:
                await self._session.run(record.let_pass(address, time))
                await self._session.run_all(delayed_table(address).notify())
            for endpoint in self._endpoints:
                if (limits := endpoint.parts.limits) is not None:
                    await self._session.run(record.let_limits_pass(limits, time))


class SyncRunning:
    """The run of a test, inside of `with running(…) as bus`: the same, for tests that are no coroutines."""

    def __init__(self, running: Running, loop: asyncio.AbstractEventLoop) -> None:
        """Have calls made on the loop of another thread."""
        self._running = running
        self._loop = loop

    @overload
    def send(
        self, destination: str | QueueAddress, message: object, **options: Unpack[SendOptions]
    ) -> str: ...
    @overload
    def send(
        self, destination: str | QueueAddress, message: object, **options: Unpack[UniqueOptions]
    ) -> UniqueMessageId: ...

    def send(self, destination: str | QueueAddress, message: object, **options: Any) -> str:
        """Send a message, as a client does; see `Running.send`."""
        message_id: str = self._wait(self._running.send(destination, message, **options))
        return message_id

    def drain(self, *, delays: bool = True, timeout: float = PATIENCE) -> None:
        """Wait until all is processed; see `Running.drain`."""
        self._wait(self._running.drain(delays=delays, timeout=timeout))

    def advance(self, time: timedelta, *, timeout: float = PATIENCE) -> None:
        """Let so much time pass at once; see `Running.advance`."""
        self._wait(self._running.advance(time, timeout=timeout))

    def sent(self, to: str | QueueAddress | None = None) -> list[SentMessage]:
        """Return what was sent; see `Running.sent`."""
        return self._wait(self._running.sent(to))

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            call.close()
            raise ConfigurationError("The block of `with running(…)` is over.")
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()


class running:  # noqa: N801 - a verb to its users: `with running(sales)`
    """Run endpoints and logs' consumers in a test: `async with running(sales, billing, database=dsn) as bus`.

    `with` does the same in a test that is no coroutine, on an event loop in a thread of its own. All work on
    `database`, which is PostgreSQL and which no other test uses meanwhile; afterwards they have the database again that
    they had. It may be left out where the first endpoint's own is a temporary one, or, of a `rowbus.django.Endpoint`,
    the one that Django's test runner made; ROWBUS_DATABASE is never used. One in which messages wait, other than a
    temporary one, is refused unless `leftovers` says that they are to be handled.

    `queues` are created besides those of the endpoints, for messages to endpoints that do not run here. `provide` maps
    types that endpoints provide to what handlers are given instead (`Endpoint.provide`). Raises ConfigurationError
    without an endpoint or a database, and as `Endpoint.start`.
    """

    def __init__(
        self,
        *services: Runs,
        database: str | None = None,
        queues: Sequence[str] = (),
        provide: Mapping[Any, Any] | None = None,
        leftovers: bool = False,
    ) -> None:
        """Take what is to run. No I/O."""
        self._services = services
        self._endpoints = [service for service in services if isinstance(service, Endpoint)]
        if not self._endpoints:
            raise ConfigurationError(
                "Say which endpoint is to run, even if it only receives what consumers send."
            )
        self._database = database
        self._queues = queues
        self._provided = provide or {}
        self._leftovers = leftovers
        self._stack = AsyncExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def __aenter__(self) -> Running:
        """Start all."""
        async with AsyncExitStack() as stack:
            found = await self._start(stack)
            self._stack = stack.pop_all()
        return found

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all."""
        await self._stack.__aexit__(kind, error, trace)

    def __enter__(self) -> SyncRunning:
        """Start all, on a loop in a thread; raises ConfigurationError in a coroutine, whose loop that would block."""
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise ConfigurationError(
                "In a coroutine write `async with running(…) as bus`, and await its verbs."
            )
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="rowbus running", daemon=True)
        self._thread.start()
        try:
            return SyncRunning(asyncio.run_coroutine_threadsafe(self.__aenter__(), loop).result(), loop)
        except BaseException:
            self._end(loop)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all, and end the thread."""
        if self._loop is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(self.__aexit__(kind, error, trace), self._loop).result()
        finally:
            self._end(self._loop)

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_soon_threadsafe(loop.stop)
        if self._thread is not None:
            self._thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    async def _start(self, stack: AsyncExitStack) -> Running:
        dsn = self._dsn()
        self._require_provided()
        for service in self._services:
            stack.callback(setattr, service, "database", service.database)
            service.database = dsn
        session = await Database(dsn, application_name="rowbus testing").connect()
        stack.push_async_callback(session.close)
        if not self._leftovers and not is_temporary(dsn):
            await _refuse_messages(session, self._endpoints[0].addresses)
        for endpoint in self._endpoints:
            await endpoint.install()
        for name in self._queues:
            await create_queue(session, self._endpoints[0].addresses.from_user(name))
        found = Running(session, self._endpoints, has_logs=len(self._endpoints) < len(self._services))
        await found.prepare()
        with replacing(self._provided):
            for service in self._services:
                await service.start()
                stack.push_async_callback(service.stop, GRACE)
        return found

    def _require_provided(self) -> None:
        for kind in self._provided:
            if not any(endpoint.provides(kind) for endpoint in self._endpoints):
                raise ConfigurationError(f"No endpoint here provides {kind!r}, so it cannot be replaced.")

    def _dsn(self) -> str:
        """Return the database that the test named."""
        found = self._database or self._endpoints[0].database_of_tests()
        if found is None:
            raise ConfigurationError(
                "Name the database of the test: running(…, database=…). The fixture rowbus_database and "
                "rowbus.testing.temporary_database() give one. It works neither on that of ROWBUS_DATABASE nor on one "
                "that an endpoint has for real."
            )
        return found


async def _refuse_messages(session: AsyncSession, addresses: Addresses) -> None:
    """Raise ConfigurationError for a database in which messages wait, which may be somebody's."""
    catalog = catalog_of(addresses)
    queues = [shape.address for shape in await session.run(catalog.find_queues()) if shape.is_queue]
    found = [each for each in queues if (await session.run(catalog.queue_state(each, 1))).depth]
    for each in await session.run(catalog.find_delayed()):
        found += [] if await session.run(delayed_table(each).next_due()) is None else [each]
    for each in await _find_long(session, addresses):
        found += [each] if await session.run(long_work_table(each).list()) else []
    if found:
        raise ConfigurationError(
            f"In the database of the test messages wait from before: in {', '.join(map(str, found))}. Name another "
            "database, or say running(…, leftovers=True) to have them handled."
        )


async def _find_long(session: AsyncSession, addresses: Addresses) -> list[QueueAddress]:
    """Return the tables of messages whose handlers take long."""
    asked = catalog_of(addresses).find_tables(COLUMNS)
    return [] if asked is None else await session.run(asked)
