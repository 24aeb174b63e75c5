"""A queue with more and more in it: messages that wait, dead rows at its head, a snapshot that is held.

Invariant: at each size the same number of messages is received, and the queue is filled up again before the next.
"""

from __future__ import annotations

import asyncio
import statistics
import time

import psycopg

import rowbus
from benchmarks import snapshot
from benchmarks.growth.curves import Curve, Figures, Line, Point, Share, curves, decades, medians, sample
from benchmarks.growth.showing import show
from benchmarks.reporting import Bench, Result
from benchmarks.workload import TABLE, PlaceOrder, add, fill
from rowbus.transport.receiving.decisions import FROM_THE_START

LEAST, MOST = 10_000, 1_000_000
REPEATS = 5  # times that messages are received at a size, each round
LOOKS = 50
PATIENCE = 600.0  # seconds
WITHIN = Share(0.9)
LINES = {
    "single": Line("receive, one a transaction", "msg/s", WITHIN, more_is_better=True),
    "batches": Line("receive, batches of 100", "msg/s", WITHIN, more_is_better=True),
    "look": Line("a look", "ms", WITHIN),
}
TENTHS = Share(0.95, point="last")


def waiting(bench: Bench) -> list[Result]:
    """(1) Messages that wait."""
    sizes = decades(_least(bench), max(1_000, int(MOST * bench.scale)))
    count = sizes[0] * 9 // 10

    def measure(size: int) -> Figures:
        fill(bench.dsn, size)
        return _measure(bench.dsn, count)

    return show(bench, curves("backlog", "messages waiting", LINES, sample(sizes, measure, bench.rounds)))


def dead_rows(bench: Bench) -> list[Result]:
    """(1) Dead rows at the head that no vacuum has removed, before messages that wait."""
    sizes = decades(1, max(1_000, int(MOST * bench.scale)), step=1_000)
    count = _least(bench)

    def measure(size: int) -> Figures:
        _fill_behind_dead(bench.dsn, size, count)
        first = _look(bench.dsn, 1)
        return {**_measure(bench.dsn, count * 9 // 10), "first": first}

    lines = {**LINES, "first": Line("the first look", "ms")}
    return show(
        bench, curves("dead rows at the head", "dead rows", lines, sample(sizes, measure, bench.rounds))
    )


def beside_a_snapshot(bench: Bench) -> list[Result]:
    """(1) A snapshot that is held from the first message to the last: the rate of each tenth."""
    return show(
        bench,
        [
            _tenths(bench, "batches", bench.messages(200_000), 100),
            _tenths(bench, "single", bench.messages(50_000), 1),
        ],
    )


def _least(bench: Bench) -> int:
    return max(20, int(LEAST * min(1, bench.scale)))


def _tenths(bench: Bench, key: str, messages: int, batch_size: int) -> Curve:
    run = snapshot.LastTenth(bench.dsn, messages, batch_size=batch_size, held=True)
    for _ in range(bench.rounds + 1):
        bench.meter.measure(run.side())
    rates = medians([{str(place): rate for place, rate in enumerate(each)} for each in run.tenths[1:]])
    points = tuple(Point(int(place) + 1, rate) for place, rate in rates.items())
    line = LINES[key]._replace(target=TENTHS)
    return Curve("beside a held snapshot", key, "tenth of the messages", line, points)


def _measure(dsn: str, count: int) -> Figures:
    """Receive so many messages, again and again, and fill the queue up in between; then look."""
    samples = []
    for _ in range(REPEATS):
        rates = {}
        for key, batch_size in (("single", 1), ("batches", 100)):
            rates[key] = asyncio.run(receive(dsn, count, batch_size))
            with psycopg.connect(dsn, autocommit=True) as connection:
                add(connection, count)
        samples.append(rates)
    return {**medians(samples), "look": _look(dsn, LOOKS)}


async def receive(dsn: str, count: int, batch_size: int) -> float:
    """Have an endpoint receive until it has so many; return its rate from the first to the last of them."""
    done, handled, marks = asyncio.Event(), 0, [0.0, 0.0]
    settings = rowbus.EndpointSettings(concurrency=1, batch_size=batch_size)
    endpoint = rowbus.Endpoint("bench", database=dsn, settings=settings, delayed_delivery=None)

    @endpoint.handler
    async def note(_message: PlaceOrder) -> None:
        nonlocal handled
        handled += 1
        if handled == 1:
            marks[0] = time.perf_counter()
        if handled == count:
            marks[1] = time.perf_counter()
            done.set()

    async with endpoint, asyncio.timeout(PATIENCE):
        await done.wait()
    return (count - 1) / (marks[1] - marks[0])


def _fill_behind_dead(dsn: str, dead: int, count: int) -> None:
    """Delete what was sent first, and have no vacuum take it away."""
    fill(dsn, dead + count)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("alter table bench set (autovacuum_enabled = off)")
        connection.execute("delete from bench where seq <= %s", (dead,))


def _look(dsn: str, times: int) -> float:
    """Return what the look of a receiver that rests takes, in the median, in ms."""
    look, took = TABLE.count_available(1, FROM_THE_START), []
    with psycopg.connect(dsn, autocommit=True) as connection:
        for _ in range(times):
            began = time.perf_counter()
            connection.execute(look.query.text, look.parameters, prepare=False)
            took.append((time.perf_counter() - began) * 1_000)
    return statistics.median(took)
