"""Sagas: a step of one against a plain handler that updates one row, and beside few or many that wait.

Invariant: both sides receive the same messages through endpoints with the same settings, and write one row for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import psycopg

import rowbus
from benchmarks.measuring import Side, ratio
from benchmarks.reporting import Bench, Result, show
from benchmarks.workload import ERROR, TABLE, run
from rowbus.sagas.postgresql import SagaTable

FEW, MANY = 1_000, 1_000_000
SAGAS = SagaTable(rowbus.QueueAddress("public", "bench.Counting"))
HEADERS = '{"NServiceBus.EnclosedMessageTypes":"Bench.Count","NServiceBus.ContentType":"application/json"}'
FILL = """
insert into bench (id, headers, body)
select gen_random_uuid(), %s, convert_to(json_build_object('key', number * %s)::text, 'UTF8')
from generate_series(1, %s) as number
order by random()
"""
WAITING = """
insert into "bench.Counting" (correlation, state, version, concurrency)
select number::text, '{"times": 1}', 1, 1 from generate_series(1, %s) as number
"""
ROWS = "insert into counted select number, 1 from generate_series(1, %s) as number"
COUNT = "update counted set times = times + 1 where key = %s"


@rowbus.command("Bench.Count")
@dataclass
class Count:
    """For the saga, or the row, of this key."""

    key: int


@dataclass
class Counted:
    """State of a saga of these benchmarks."""

    times: int = 0


Progress = Callable[[], None]


def saga_side(dsn: str, messages: int, *, batch_size: int, waiting: int) -> Side:
    """An endpoint with a saga: each message is a step of another one of those that wait, spread over all of them."""

    def add(endpoint: rowbus.Endpoint, step: Progress) -> None:
        class Counting(rowbus.Saga[Counted], name="Bench.Counting"):
            @rowbus.starts(Count, by=lambda message: message.key)
            async def count(self, _message: Count) -> None:
                self.state.times += 1
                step()

        endpoint.add(Counting)

    def prepare() -> None:
        _fill(dsn, messages, waiting // messages)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute('drop table if exists "bench.Counting"')
            run(dsn, *SAGAS.create())
            connection.execute(WAITING, (waiting,))
            connection.execute('vacuum analyze "bench.Counting"')

    return Side(f"saga, {waiting:,} wait", prepare, lambda: _work(dsn, messages, batch_size, add))


def handler_side(dsn: str, messages: int, *, batch_size: int) -> Side:
    """An endpoint with a handler that updates a row of its own table."""

    def add(endpoint: rowbus.Endpoint, step: Progress) -> None:
        @endpoint.handler
        async def count(message: Count, context: rowbus.Context) -> None:
            await context.connection.execute(COUNT, (message.key,))
            step()

    def prepare() -> None:
        _fill(dsn, messages, 1)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("drop table if exists counted")
            connection.execute("create table counted (key int primary key, times int) with (fillfactor = 80)")
            connection.execute(ROWS, (messages,))
            connection.execute("vacuum analyze counted")

    return Side("handler, one update", prepare, lambda: _work(dsn, messages, batch_size, add))


def _fill(dsn: str, messages: int, apart: int) -> None:
    """Fill the queue with messages whose keys are so far apart, in random order."""
    run(dsn, TABLE.drop(), *TABLE.create(), *ERROR.create())
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(FILL, (HEADERS, apart, messages))
        connection.execute("vacuum analyze bench")


def _work(dsn: str, messages: int, batch_size: int, add: Callable[[rowbus.Endpoint, Progress], None]) -> int:
    return asyncio.run(_serve(dsn, messages, batch_size, add))


async def _serve(
    dsn: str, messages: int, batch_size: int, add: Callable[[rowbus.Endpoint, Progress], None]
) -> int:
    done = asyncio.Event()
    steps = 0
    settings = rowbus.EndpointSettings(concurrency=1, batch_size=batch_size)
    endpoint = rowbus.Endpoint("bench", database=dsn, settings=settings)

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == messages:
            done.set()

    add(endpoint, step)
    async with endpoint:
        await done.wait()
    return steps


def sagas(bench: Bench) -> list[Result]:
    """(y) A saga's step: against a handler that updates one row, and beside a million sagas that wait."""
    results: list[Result] = []
    for count, batch_size, target in ((3_000, 1, 0.6), (20_000, 100, 0.5)):
        messages = bench.messages(count)
        ours = saga_side(bench.dsn, messages, batch_size=batch_size, waiting=messages)
        plain = handler_side(bench.dsn, messages, batch_size=batch_size)
        title = f"(y) a saga's step, batches of {batch_size}"
        results.append(_compared(bench, title, ours, plain, target))
    few = bench.messages(FEW)
    beside_few = saga_side(bench.dsn, few, batch_size=1, waiting=max(few, FEW))
    beside_many = saga_side(bench.dsn, few, batch_size=1, waiting=MANY)
    title = "(y) a saga's step beside 1,000 times as many that wait"
    results.append(_compared(bench, title, beside_many, beside_few, 0.8))
    return results


def _compared(bench: Bench, title: str, ours: Side, other: Side, target: float) -> Result:
    runs = bench.meter.alternate([ours, other], bench.rounds)
    show(title, runs)
    return Result(f"{title}, against {other.name}", ratio(runs[ours.name], runs[other.name]), target)
