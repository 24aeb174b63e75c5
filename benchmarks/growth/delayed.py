"""More and more delayed messages that wait, and bursts that are due in one second.

Invariant: the messages of a burst are numbered in the order in which they are due.
"""

from __future__ import annotations

import asyncio
import statistics
import time

import psycopg

import rowbus
from benchmarks import delayed_sides as sides
from benchmarks.growth.curves import Figures, Line, Most, curves, decades, sample
from benchmarks.growth.showing import show
from benchmarks.reporting import Bench, Result
from benchmarks.workload import QUEUE, PlaceOrder, headers_text
from rowbus.messages.headers import decode_headers, encode_copied_headers
from rowbus.messages.message import OutgoingMessage

MOST_WAITING, BURST = 1_000_000, 100_000
DUE = 10_000  # messages that the mover moves beside those that wait
AHEAD = 2.0  # seconds from the start of a burst's endpoint to its first message
PATIENCE = 600.0  # seconds
FILL_BURST = """
insert into "bench.Delayed" (headers, body, due)
select %s, convert_to(format('{"order_id": "%%s", "total": 9.5}', number), 'UTF8'),
    to_timestamp(%s + number::float8 / %s)
from generate_series(1, %s) as number
"""
WAITING = {
    "move": Line("moving due messages, batches of 100", "msg/s", more_is_better=True),
    "look": Line("a look of the mover", "ms"),
}
BURSTS = {
    "disorder": Line("handled after one due later", "", Most(0)),
    "lateness": Line("lateness, p99", "ms"),
}


def waiting(bench: Bench) -> list[Result]:
    """(5) Messages that wait until they are due."""
    due = bench.messages(DUE)

    def measure(size: int) -> Figures:
        sides.fill_delayed(bench.dsn, size, due_in=3600)
        sides.add_delayed(bench.dsn, due, due_in=-60)
        look = sides.milliseconds_of_a_look(bench.dsn)
        began = time.perf_counter()
        moved = asyncio.run(sides.move_all(bench.dsn, 100))
        assert moved == due, moved
        return {"move": moved / (time.perf_counter() - began), "look": look}

    sizes = decades(1, max(100, int(MOST_WAITING * bench.scale)), step=100)
    found = sample(sizes, measure, bench.rounds)
    return show(bench, curves("delayed messages", "messages waiting", WAITING, found))


def burst(bench: Bench) -> list[Result]:
    """(5) Messages that are due in one and the same second."""
    sizes = decades(100, max(1_000, int(BURST * bench.scale)))
    found = sample(sizes, lambda size: asyncio.run(_burst(bench.dsn, size)), bench.rounds)
    return show(bench, curves("due in one second", "messages", BURSTS, found))


async def _burst(dsn: str, count: int) -> Figures:
    sides.empty_delayed(dsn)
    begins = time.time() + AHEAD + count / 20_000  # the messages have to be there before
    _fill_burst(dsn, begins, count)
    order: list[int] = []
    late: list[float] = []
    done = asyncio.Event()
    settings = rowbus.EndpointSettings(concurrency=1, batch_size=100)
    endpoint = rowbus.Endpoint("bench", database=dsn, settings=settings)

    @endpoint.handler
    async def note(message: PlaceOrder) -> None:
        order.append(int(message.order_id))
        late.append((time.time() - begins - order[-1] / count) * 1_000)
        if len(order) == count:
            done.set()

    async with endpoint, asyncio.timeout(PATIENCE):
        await done.wait()
    return {"disorder": _disorder(order), "lateness": statistics.quantiles(late, n=100)[98]}


def _fill_burst(dsn: str, begins: float, count: int) -> None:
    headers = OutgoingMessage(decode_headers(headers_text())).bound_for(QUEUE).headers
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set timezone to 'UTC'")
        connection.execute(FILL_BURST, (encode_copied_headers(headers), begins, count, count))
        connection.execute('vacuum analyze "bench.Delayed"')
    assert time.time() < begins, "the burst was not ready in time"


def _disorder(order: list[int]) -> int:
    """Count those that come after a later one."""
    latest = disorder = 0
    for number in order:
        disorder += number < latest
        latest = max(latest, number)
    return disorder
