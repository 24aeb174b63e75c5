"""The latency of a single message at rest: from the call that sends it to its handler, by a queue and by a log.

Invariant: messages are so far apart that their receiver rests before each.
"""

from __future__ import annotations

import asyncio
import random
import time
from datetime import timedelta
from typing import Literal

import psycopg

import rowbus
from benchmarks.log_databases import ours
from benchmarks.log_running import SETTINGS, Latencies
from benchmarks.measuring import Side, percentile
from benchmarks.reporting import Bench, Result
from benchmarks.workload import MESSAGE, PlaceOrder, empty

ROUNDS = 3
MESSAGES, LEAST = 300, 20
Size = int | Literal["auto"]
SIZES: tuple[Size, ...] = (1, "auto", 100)
PATIENCE = 60.0  # seconds for one message
QUEUE = {50: 5.0, 99: 20.0}  # ms, by percentile
TICK = (SETTINGS.tick_period or timedelta()) / timedelta(milliseconds=1)
LOG = {50: TICK + 10, 99: TICK + 10}


def rest(chance: random.Random) -> float:
    """Return the seconds between two messages."""
    return chance.uniform(0.1, 0.4)


def latency(bench: Bench) -> list[Result]:
    """(a2) One message at rest."""
    count = max(LEAST, int(MESSAGES * bench.scale))
    queues = {f"queue, batch_size {size}": _AtRest(bench.dsn, count, size) for size in SIZES}
    log = Latencies(ours(bench.dsn, "latency"), count, rest)
    sides = [queue.side(name) for name, queue in queues.items()]
    bench.meter.alternate([*sides, log.side()], min(ROUNDS, bench.rounds))
    return [
        Result(
            f"(a2) latency at rest, {name}, p{percent}", percentile(found, percent), most, " ms", at_most=True
        )
        for name, found, targets in (
            *((name, queue.milliseconds, QUEUE) for name, queue in queues.items()),
            ("log", log.milliseconds, LOG),
        )
        for percent, most in targets.items()
    ]


class _AtRest:
    """An endpoint, and a client that sends to it, one message at a time."""

    def __init__(self, dsn: str, messages: int, batch_size: Size) -> None:
        self._dsn, self._messages = dsn, messages
        self._settings = rowbus.EndpointSettings(concurrency=1, batch_size=batch_size)
        self.milliseconds: list[list[float]] = []

    def side(self, name: str) -> Side:
        return Side(name, lambda: empty(self._dsn), lambda: asyncio.run(self._run()))

    async def _run(self) -> int:
        arrived, chance = asyncio.Event(), random.Random(1)
        endpoint = rowbus.Endpoint("bench", database=self._dsn, settings=self._settings)

        @endpoint.handler
        async def arrive(_message: PlaceOrder) -> None:
            arrived.set()

        async with endpoint, await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as connection:
            client = rowbus.AsyncClient(connection)
            self.milliseconds.append(
                [await _one(client, arrived, rest(chance)) for _ in range(self._messages)]
            )
        return self._messages


async def _one(client: rowbus.AsyncClient, arrived: asyncio.Event, pause: float) -> float:
    await asyncio.sleep(pause)
    arrived.clear()
    began = time.perf_counter()
    await client.send("bench", MESSAGE)
    async with asyncio.timeout(PATIENCE):
        await arrived.wait()
    return (time.perf_counter() - began) * 1_000
