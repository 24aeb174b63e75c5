"""Costs of lanes, limits by key and unique sends: the same messages with and without, in one process; and what waits.

Order by key is for several processes: it is measured in eight, too, that rest when the messages are committed.

Invariant: both sides receive the same messages, with the same handler and the same number in hand at a time; those of
the side with lanes are in their lanes before it begins, and each of several processes has its own.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from multiprocessing.synchronize import Event, Semaphore
from typing import NamedTuple

import psycopg

import rowbus
from benchmarks import idle
from benchmarks.growth.workers import PROCESSES, receiving
from benchmarks.measuring import Side, ratio
from benchmarks.receiving import serve
from benchmarks.reporting import Bench, Result, show
from benchmarks.workload import BODY, ERROR, MESSAGE, QUEUE, TABLE, PlaceOrder, empty, headers_text, run
from rowbus.database.postgresql.connection import Session
from rowbus.database.statements import control
from rowbus.transport.lanes.lane_table import PATIENCE, LaneTable

AT_ONCE = 8
KEYS = 10_000
URGENT, LEAST = 400, 3
PAUSE = 0.02  # seconds between two looks, or two messages that are waited for
FILL = """
insert into bench (id, headers, body)
select gen_random_uuid(), (%s::jsonb || jsonb_build_object(%s::text, %s::text || (number %% %s)))::text, %s
from generate_series(1, %s) as number
"""

FILL_BODIES = """
insert into bench (id, headers, body)
select gen_random_uuid(), %s, convert_to('{"order_id": "key-' || (number %% %s) || '", "total": 9.5}', 'UTF8')
from generate_series(1, %s) as number
"""


class Kind(NamedTuple):
    """A kind of lanes: which header chooses the lane, what stands before a number there, and how many there are."""

    title: str
    lanes: rowbus.Lanes
    header: str
    prefix: str
    values: int
    target: float
    times: int = 1
    """So many times the messages: the start of many receivers is not what is measured."""


KINDS = (
    Kind(f"{KEYS:,} keys in {AT_ONCE} lanes", rowbus.by_key(AT_ONCE), "Rowbus.Key", "key-", KEYS, 0.7),
    Kind("32 tenants in 64 lanes", rowbus.fair(by="tenant"), "tenant", "tenant-", 32, 0.9, 4),
    Kind("3 priorities", rowbus.by_priority("p0", "p1", "p2"), "Rowbus.Priority", "p", 3, 0.9, 4),
)


def _side(dsn: str, messages: int, kind: Kind, *, batch_size: int, divided: bool) -> Side:
    """An endpoint with a no-op handler, with lanes or without."""
    lanes = kind.lanes if divided else None

    def endpoint() -> rowbus.Endpoint:
        settings = rowbus.EndpointSettings(concurrency=AT_ONCE, batch_size=batch_size)
        return rowbus.Endpoint("bench", database=dsn, settings=settings, lanes=lanes)

    def prepare() -> None:
        _fill(dsn, endpoint(), messages, (kind.header, kind.prefix, kind.values))

    name = "with lanes" if divided else "without"
    return Side(name, prepare, lambda: asyncio.run(serve(endpoint(), messages)))


def _fill(dsn: str, endpoint: rowbus.Endpoint, messages: int, header: tuple[str, str, int]) -> None:
    """Make the queues new, with so many messages: their header, the beginning of its values, and how many there are."""
    _drop_lanes(dsn)
    run(dsn, TABLE.drop(), *TABLE.create(), *ERROR.create())
    asyncio.run(endpoint.install())
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(FILL, (headers_text(), *header, BODY, messages))
        connection.execute("vacuum analyze")


def _drop_lanes(dsn: str) -> None:
    """Drop the lanes of the side before."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = connection.execute(
            "select relname from pg_class where relkind = 'r' and relname like 'bench#%'"
        )
        names = [name for (name,) in found]
    run(dsn, *(control(f'drop table "{name}"'.encode(), f"Failed to drop {name}") for name in names))


class Processes:
    """Eight processes that receive, one message or batch at a time each, by lanes of keys or without."""

    def __init__(self, dsn: str, messages: int, *, batch_size: int, divided: bool) -> None:
        """Have them handle so many messages at once. No I/O."""
        self._dsn, self._messages, self._batch_size = dsn, messages, batch_size
        self._lanes = KINDS[0].lanes if divided else None
        self._handled = PROCESSES.Semaphore(0)
        self.side = Side("with lanes" if divided else "without", self._send, self._commit, self._run)

    @contextmanager
    def _run(self) -> Generator[list[int]]:
        """Have them run meanwhile, after a first wave of messages, in which sessions begin and plans are made."""
        _drop_lanes(self._dsn)
        empty(self._dsn)
        work = partial(_receive, lanes=self._lanes, handled=self._handled)
        with receiving(self._dsn, work, AT_ONCE, self._batch_size) as processes:
            self._settle()
            self._send()
            self._commit()
            yield processes

    def _settle(self) -> None:
        """Wait until each process has its lane."""
        lanes = [] if self._lanes is None else self._lanes.addresses(QUEUE)
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            session, survey = Session(connection), LaneTable(QUEUE).survey(lanes, PATIENCE)
            while len({holder.process for holder in session.run(survey).holders.values()}) < len(lanes):
                time.sleep(PAUSE)

    def _send(self) -> None:
        kind = KINDS[0]
        header = (kind.header, kind.prefix, kind.values)
        self._sending = psycopg.connect(self._dsn)
        self._sending.execute(FILL, (headers_text(), *header, BODY, self._messages))
        Session(self._sending).run_all(TABLE.notify())

    def _commit(self) -> int:
        """Have the processes see the messages, and wait until all are handled."""
        done = self._handled.get_value() + self._messages
        self._sending.commit()
        self._sending.close()
        while self._handled.get_value() < done:
            time.sleep(PAUSE)
        return self._messages


def _receive(
    dsn: str,
    batch_size: int,
    ready: Semaphore,
    over: Event,
    *,
    lanes: rowbus.Lanes | None,
    handled: Semaphore,
) -> None:
    settings = rowbus.EndpointSettings(concurrency=1, batch_size=batch_size)
    endpoint = rowbus.Endpoint("bench", database=dsn, settings=settings, lanes=lanes, delayed_delivery=None)

    @endpoint.handler
    async def count(_message: PlaceOrder) -> None:
        handled.release()

    async def receive() -> None:
        async with endpoint:
            ready.release()
            await asyncio.to_thread(over.wait)

    asyncio.run(receive())


def _limited_side(dsn: str, messages: int, *, batch_size: int, limited: bool) -> Side:
    """An endpoint with a no-op handler, with a limit by key or without."""
    limit = rowbus.Concurrency(2, by="order_id") if limited else None

    def prepare() -> None:
        empty(dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(FILL_BODIES, (headers_text(), KEYS, messages))
            connection.execute("vacuum analyze bench")

    def work() -> int:
        settings = rowbus.EndpointSettings(concurrency=AT_ONCE, batch_size=batch_size)
        return asyncio.run(serve(rowbus.Endpoint("bench", database=dsn, settings=settings), messages, limit))

    return Side("with a limit by key" if limited else "without", prepare, work)


def _sending_side(dsn: str, messages: int, *, unique: bool) -> Side:
    """`Client.send`, each in a transaction of its own, of messages that exist once or of plain ones."""
    numbers = itertools.count()

    def prepare() -> None:
        empty(dsn)
        settings = rowbus.EndpointSettings(takes_unique=True)
        asyncio.run(rowbus.Endpoint("bench", database=dsn, settings=settings).install())

    def work() -> int:
        with psycopg.connect(dsn, autocommit=True) as connection:
            client = rowbus.Client(connection)
            for _ in range(messages):
                if unique:
                    client.send("bench", MESSAGE, unique=f"order-{next(numbers)}", while_waiting=True)
                else:
                    client.send("bench", MESSAGE)
        return messages

    return Side("unique" if unique else "plain", prepare, work)


def _compare(bench: Bench, title: str, ours: Side, plain: Side, target: float) -> Result:
    runs = bench.meter.alternate([ours, plain], bench.rounds)
    show(title, runs)
    return Result(f"{title}, against none", ratio(runs[ours.name], runs[plain.name]), target)


def lanes(bench: Bench) -> list[Result]:
    """(l) Order by key, fairness, priority, limits by key and unique sends, against the same without."""
    results: list[Result] = []
    for kind in KINDS:
        for count, batch_size in ((4_000, 1), (40_000, 100)):
            messages = bench.messages(count * kind.times)
            ours = _side(bench.dsn, messages, kind, batch_size=batch_size, divided=True)
            plain = _side(bench.dsn, messages, kind, batch_size=batch_size, divided=False)
            title = f"(l) {kind.title}, batches of {batch_size}"
            results.append(_compare(bench, title, ours, plain, kind.target))
    return [*results, *processes(bench), *_limits(bench), _unique(bench), *waits(bench), *idle_lanes(bench)]


def processes(bench: Bench) -> list[Result]:
    """(l) Order by key over eight processes."""
    results: list[Result] = []
    for count, batch_size in ((4_000, 1), (40_000, 100)):
        ours, plain = (
            Processes(bench.dsn, bench.messages(count), batch_size=batch_size, divided=divided).side
            for divided in (True, False)
        )
        title = f"(l) {KEYS:,} keys over {AT_ONCE} processes, batches of {batch_size}"
        results.append(_compare(bench, title, ours, plain, KINDS[0].target))
    return results


def _limits(bench: Bench) -> list[Result]:
    _drop_lanes(bench.dsn)
    results: list[Result] = []
    for count, batch_size in ((4_000, 1), (40_000, 100)):
        messages = bench.messages(count)
        ours, plain = (
            _limited_side(bench.dsn, messages, batch_size=batch_size, limited=limited)
            for limited in (True, False)
        )
        title = f"(l) limits by key, {KEYS:,} keys, batches of {batch_size}"
        results.append(_compare(bench, title, ours, plain, 0.85))
    return results


def _unique(bench: Bench) -> Result:
    ours, plain = (_sending_side(bench.dsn, bench.messages(3_000), unique=unique) for unique in (True, False))
    return _compare(bench, "(l) unique sends", ours, plain, 0.85)


def waits(bench: Bench) -> list[Result]:
    """(l) How long the one message of a tenant waits beside 100,000 of another, and an urgent one beside 100,000."""
    messages = bench.messages(100_000)
    fair = _waits(bench.dsn, messages, KINDS[1].lanes, ("tenant", "a", "b"), max(3, bench.rounds))
    urgent = _waits(
        bench.dsn, messages, KINDS[2].lanes, ("Rowbus.Priority", "p2", "p0"), bench.messages(URGENT)
    )
    return [
        Result(
            f"(l) one message beside {messages:,} of another tenant", max(fair), 1000, " ms", at_most=True
        ),
        Result(
            f"(l) urgent messages beside {messages:,} in bulk, p99",
            statistics.quantiles(urgent, n=100)[98],
            50,
            " ms",
            at_most=True,
        ),
    ]


def _waits(
    dsn: str, messages: int, lanes: rowbus.Lanes, header: tuple[str, str, str], count: int
) -> list[float]:
    """Send so many messages, one at a time, beside many with the header's other value; return their ms."""
    name, many, one = header
    settings = rowbus.EndpointSettings(concurrency=AT_ONCE, batch_size=1)
    endpoint = rowbus.Endpoint("bench", database=dsn, settings=settings, lanes=lanes)
    _fill(dsn, endpoint, messages, (name, many, 1))
    arrived, left = asyncio.Event(), messages

    @endpoint.handler
    async def arrive(message: PlaceOrder) -> None:
        nonlocal left
        left -= 1
        if message.order_id == "one":
            arrived.set()

    async def send() -> list[float]:
        took = list[float]()
        async with endpoint, await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            client = rowbus.AsyncClient(connection)
            while len(took) < LEAST or (len(took) < count and left > 0):
                await asyncio.sleep(PAUSE)
                arrived.clear()
                began = time.perf_counter()
                await client.send("bench", PlaceOrder("one", 1.0), headers={name: one})
                await arrived.wait()
                took.append((time.perf_counter() - began) * 1_000)
        return took

    return asyncio.run(send())


def idle_lanes(bench: Bench) -> list[Result]:
    """(l) An endpoint with 64 empty lanes, which idles as one table does."""
    part = min(1.0, bench.scale)
    found = idle.measure(bench.dsn, 1, idle.SETTLING * part, 2 * idle.COUNTED * part, lanes=KINDS[1].lanes)
    title = "(l) 64 idle lanes: "
    return [
        Result(title + "transactions a second", found.transactions, 5, at_most=True),
        Result(title + "client CPU", found.cpu, 1, " %", at_most=True),
    ]
