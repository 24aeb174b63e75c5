"""Receiving: an endpoint whose handler does nothing, or one insert, beside a loop by hand that does the same.

Invariant: both begin with a full queue, and what is counted begins with the first message that was received.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.bench import statements
from rowbus.bench.figures import DRIVER, ROWBUS, SINGLE_RECEIVE
from rowbus.bench.measuring import Side
from rowbus.bench.place import QUEUE
from rowbus.bench.sending import BODY, MESSAGE, PlaceOrder, headers_text
from rowbus.endpoint.context import Context
from rowbus.endpoint.endpoint import Endpoint
from rowbus.running.waiting import pause
from rowbus.settings import EndpointSettings
from rowbus.transport.queues.table import queue_table
from rowbus.transport.receiving.decisions import FROM_THE_START

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowbus.bench.measuring import Watch
    from rowbus.bench.place import Place
    from rowbus.database.sessions import AsyncSession

BATCH: Final = 100
MOST: Final = 300_000  # messages that a queue is filled with
LOOK: Final = 0.1  # seconds until the time is looked at


class Load(NamedTuple):
    """A way to receive messages: so many connections, so many messages a transaction, with an insert or without."""

    name: str
    concurrency: int = 1
    batch_size: int = 1
    inserts: bool = False


def loads(concurrency: int) -> Iterator[Load]:
    """Give what is measured of receiving."""
    yield Load(SINGLE_RECEIVE)
    if concurrency > 1:
        yield Load(f"{SINGLE_RECEIVE}, concurrency {concurrency}", concurrency)
    yield Load(f"receive, batches of {BATCH}", batch_size=BATCH)
    yield Load("receive, and one insert in the handler", inserts=True)


def receiving_sides(place: Place, concurrency: int) -> Iterator[Side]:
    """Give the sides of receiving, each beside the driver."""
    for load in loads(concurrency):
        least = 20 * load.batch_size * load.concurrency
        yield Side(load.name, ROWBUS, partial(_endpoint_receives, place, load), least, MOST)
        yield Side(load.name, DRIVER, partial(_driver_receives, place, load), least, MOST)


class Tally:
    """Counts messages on a watch: the first one starts it, the last one, or the end of its time, stops it."""

    def __init__(self, count: int, watch: Watch) -> None:
        """Count up to so many behind the first one."""
        self._most = count
        self._counted: int | None = None  # None: not even the first one came
        self._watch = watch
        self._done = asyncio.Event()

    @property
    def goes_on(self) -> bool:
        """Whether there is something left to count, and time."""
        return not (self._done.is_set() or self._watch.is_over)

    def add(self) -> None:
        """Count a message; those that come afterwards do not count."""
        if self._counted is None:
            self._counted = 0
            self._watch.start()
        elif not self._done.is_set():
            self._counted += 1
            if self._counted == self._most:
                self.finish()

    def finish(self) -> None:
        """Stop, unless it was stopped."""
        if not self._done.is_set():
            self._done.set()
            self._watch.stop(self._counted or 0)

    async def wait(self) -> None:
        """Wait until all are counted, or their time is up."""
        while self.goes_on:
            await pause(self._done, LOOK)
        self.finish()


def settings_of(place: Place, concurrency: int, batch_size: int) -> EndpointSettings:
    """Return the settings of an endpoint here; behind a pooler those that work there."""
    return EndpointSettings(
        schema=place.schema,
        concurrency=concurrency,
        batch_size=batch_size,
        notifications=place.is_direct,
        prepared_statements=place.is_direct,
    )


def _fill(place: Place, messages: int) -> None:
    with place.session() as session:
        session.run(statements.truncate(place.queue))
        session.run(statements.truncate(place.address("orders")))
        session.run(statements.fill(place.queue, messages, headers_text(), BODY))
        session.run(statements.vacuum(place.queue))


def _endpoint_receives(place: Place, load: Load, count: int, watch: Watch) -> None:
    _fill(place, count + 1)
    asyncio.run(_serve(place, load, Tally(count, watch)))


async def _serve(place: Place, load: Load, tally: Tally) -> None:
    settings = settings_of(place, load.concurrency, load.batch_size)
    endpoint = Endpoint(QUEUE, database=place.dsn, settings=settings, delayed_delivery=None)
    insert = statements.insert_order(place.schema, MESSAGE.order_id, MESSAGE.total)

    async def do_nothing(_message: PlaceOrder) -> None:
        tally.add()

    async def write(_message: PlaceOrder, context: Context) -> None:
        await context.connection.execute(insert.query.text, insert.parameters)
        tally.add()

    endpoint.handler(write if load.inserts else do_nothing)
    async with endpoint:
        await tally.wait()


def _driver_receives(place: Place, load: Load, count: int, watch: Watch) -> None:
    _fill(place, count + 1)
    asyncio.run(_loops(place, load, Tally(count, watch)))


async def _loops(place: Place, load: Load, tally: Tally) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(load.concurrency):
            group.create_task(_loop(place, load, tally))
    tally.finish()


async def _loop(place: Place, load: Load, tally: Tally) -> None:
    async with place.async_session() as session:
        while tally.goes_on and await _receive(session, place, load, tally):
            pass


async def _receive(session: AsyncSession, place: Place, load: Load, tally: Tally) -> int:
    """Receive in one transaction, as one would by hand."""
    receive = queue_table(place.queue).receive(load.batch_size, FROM_THE_START)
    insert = statements.insert_order(place.schema, MESSAGE.order_id, MESSAGE.total)
    cursor = session.connection.cursor(binary=True)
    async with session.connection.transaction():
        await cursor.execute(receive.query.text, receive.parameters, prepare=True)
        rows = await cursor.fetchall()
        for _ in rows:
            if load.inserts:
                await cursor.execute(insert.query.text, insert.parameters, prepare=True)
            tally.add()
    return len(rows)
