"""One statement or one send in the handler: what a message costs the client, and what batches give.

Invariant: the bare side runs the receive and the same statement in one transaction, with plain psycopg at the same
concurrency; it does not read the message.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
from typing import TYPE_CHECKING, Literal, NamedTuple

import psycopg

import rowbus
from benchmarks.handlers import Countdown, Handler, sending, side
from benchmarks.measuring import Measurement, Side, ratio
from benchmarks.reporting import Bench, Result, show
from benchmarks.workload import BODY, ERROR, TABLE, PlaceOrder, fill, headers_text
from rowbus.messages.message import OutgoingMessage
from rowbus.transport.receiving.decisions import FROM_THE_START

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import LiteralString

    from psycopg.abc import Params

INSERT: LiteralString = "insert into bench_orders (order_id, total) values (%s, %s)"
UPDATE: LiteralString = "update bench_counters set count = count + 1 where id = %s"
MOST_CPU = {1: 240.0, 8: 200.0}  # µs of the client a message, by concurrency
SENDS_AT_A_TIME, MOST_CPU_OF_SENDS = 4, 180.0
LEAST_OF_AUTO = {"1": 1.0, "100": 0.9}
"""Share of the rate of units of so many messages."""


class _Units(NamedTuple):
    """The runs of units of several sizes."""

    title: str
    runs: Mapping[str, list[Measurement]]


def statement(bench: Bench) -> list[Result]:
    """(a5) A handler that runs one statement, `async def` and `def`, beside the bare driver's."""
    results: list[Result] = []
    messages = bench.messages(4_000)
    for concurrency, most in MOST_CPU.items():
        settings = rowbus.EndpointSettings(concurrency=concurrency, batch_size=1)
        sides = [
            side(bench.dsn, "async def", messages, _asynchronous, settings=settings, fill=_fill),
            side(bench.dsn, "def", messages, _plain, settings=settings, fill=_fill),
            _bare_side(bench.dsn, messages, concurrency, INSERT, ("42", 9.5)),
        ]
        title = f"(a5) one statement in the handler, {concurrency} at a time"
        results += _cpu(bench, title, sides, most)
    return results


def handler_send(bench: Bench) -> list[Result]:
    """(a8) A handler that sends one message, beside the bare driver's."""
    messages, send = bench.messages(4_000), ERROR.send(OutgoingMessage({}, BODY), notify=True)
    values = {**send.parameters, "headers": headers_text()}
    settings = rowbus.EndpointSettings(concurrency=SENDS_AT_A_TIME, batch_size=1)
    sides = [
        side(bench.dsn, "async def", messages, sending, settings=settings),
        _bare_side(bench.dsn, messages, SENDS_AT_A_TIME, send.query.text, values),
    ]
    title = f"(a8) a send in the handler, {SENDS_AT_A_TIME} at a time"
    return _cpu(bench, title, sides, MOST_CPU_OF_SENDS)


def _cpu(bench: Bench, title: str, sides: list[Side], most: float) -> list[Result]:
    """Compare sides, of which the last is the bare driver's, by the client's CPU a message."""
    runs = bench.meter.alternate(sides, bench.rounds)
    show(title, runs)
    return [
        Result(
            f"{title}: client CPU of {each.name}",
            statistics.median(run.client_cpu / run.messages for run in runs[each.name]) * 1e6,
            most,
            " µs",
            at_most=True,
        )
        for each in sides[:-1]
    ]


def auto(bench: Bench) -> list[Result]:
    """(a7) Units that grow with what waits, against those of one message and of a hundred; and where rows are hot."""
    apart = _units(bench, "one statement in the handler", _asynchronous, 20_000, 1)
    hot = _units(bench, "four slots, ten rows that all handlers change", _hot, 1_000, 4)
    return [
        *(_against(apart, size, least) for size, least in LEAST_OF_AUTO.items()),
        _against(hot, "1", LEAST_OF_AUTO["1"]),
    ]


def _units(
    bench: Bench, what: str, handler: Callable[[Countdown], Handler], messages: int, concurrency: int
) -> _Units:
    sizes: dict[str, int | Literal["auto"]] = {"1": 1, "auto": "auto", "100": 100}
    sides = [
        side(
            bench.dsn,
            name,
            bench.messages(messages),
            handler,
            settings=rowbus.EndpointSettings(concurrency=concurrency, batch_size=size),
            fill=_fill,
        )
        for name, size in sizes.items()
    ]
    runs, title = bench.meter.alternate(sides, bench.rounds), f"(a7) batch_size auto, {what}"
    show(title, runs)
    return _Units(title, runs)


def _against(units: _Units, size: str, least: float) -> Result:
    return Result(f"{units.title}: against {size}", ratio(units.runs["auto"], units.runs[size]), least)


def _fill(dsn: str, messages: int) -> None:
    fill(dsn, messages)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop table if exists bench_orders")
        connection.execute("create table bench_orders (order_id text not null, total float8 not null)")
        connection.execute("drop table if exists bench_counters")
        connection.execute("create table bench_counters (id bigint primary key, count bigint not null)")
        connection.execute("insert into bench_counters select id, 0 from generate_series(0, 9) as id")


def _asynchronous(countdown: Countdown) -> Handler:
    async def insert(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.connection.execute(INSERT, (message.order_id, message.total))
        countdown.count()

    return insert


def _hot(countdown: Countdown) -> Handler:
    numbers = itertools.count()

    async def add(_message: PlaceOrder, context: rowbus.Context) -> None:
        await context.connection.execute(UPDATE, (next(numbers) * 7 % 10,))
        countdown.count()

    return add


def _plain(countdown: Countdown) -> Handler:
    def insert(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        context.connection.execute(INSERT, (message.order_id, message.total))
        countdown.count()

    return insert


def _bare_side(
    dsn: str, messages: int, concurrency: int, text: LiteralString | bytes, values: Params
) -> Side:
    async def loop() -> int:
        receive = TABLE.receive(1, FROM_THE_START)
        received = 0
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            cursor = connection.cursor(binary=True)
            while True:
                async with connection.transaction():
                    await cursor.execute(receive.query.text, receive.parameters, prepare=True)
                    if not await cursor.fetchall():
                        return received
                    await connection.execute(text, values, prepare=True)
                received += 1

    async def loops() -> int:
        return sum(await asyncio.gather(*(loop() for _ in range(concurrency))))

    return Side("psycopg, async", lambda: _fill(dsn, messages), lambda: asyncio.run(loops()))
