"""More and more subscribers of an event.

Invariant: each subscriber has a queue, and gets a copy of each event that is published.
"""

from __future__ import annotations

import asyncio
import statistics
import time

import rowbus
from benchmarks.growth.curves import Figures, Line, curves, ladder, sample_growing
from benchmarks.growth.showing import show
from benchmarks.publishing import EVENT, SCHEMA, OrderPlaced, create_schema, subscribe
from benchmarks.reporting import Bench, Result

COUNTS, USUAL = (1, 10, 100, 1_000), 1_000
TIMES = 40  # publishes of a measurement
PAUSE = 0.02  # seconds between two changes of subscriptions
LINES = {
    "publish": Line("publish", "ms"),
    "changing": Line("publish while subscriptions change", "ms"),
}


def subscribers(bench: Bench) -> list[Result]:
    """(7) Subscribers, and their cache while subscriptions change."""
    create_schema(bench.dsn)
    reached = 0

    def grow(count: int) -> None:
        nonlocal reached
        for number in range(reached, count):
            subscribe(bench.dsn, number)
        reached = count

    counts = ladder(COUNTS, USUAL * bench.scale)
    found = sample_growing(counts, grow, lambda: asyncio.run(_measure(bench.dsn)), bench.rounds)
    return show(bench, curves("subscribers of an event", "subscribers", LINES, found))


async def _measure(dsn: str) -> Figures:
    settings = rowbus.EndpointSettings(schema=SCHEMA, auto_subscribe=False)
    endpoint = rowbus.Endpoint("publisher", database=dsn, settings=settings, delayed_delivery=None)
    endpoint.handler(_ignore)
    async with endpoint:
        await endpoint.publish(EVENT)
        still = await _publish(endpoint)
        changes = asyncio.create_task(_change(endpoint))
        changing = await _publish(endpoint)
        changes.cancel()
        await asyncio.gather(changes, return_exceptions=True)
    return {"publish": still, "changing": changing}


async def _publish(endpoint: rowbus.Endpoint) -> float:
    took = []
    for _ in range(TIMES):
        began = time.perf_counter()
        await endpoint.publish(EVENT)
        took.append((time.perf_counter() - began) * 1_000)
    return statistics.median(took)


async def _change(endpoint: rowbus.Endpoint) -> None:
    """Subscribe and unsubscribe the publisher itself, which makes it forget each time who subscribes."""
    while True:
        await endpoint.subscribe(OrderPlaced)
        await asyncio.sleep(PAUSE)
        await endpoint.unsubscribe(OrderPlaced)
        await asyncio.sleep(PAUSE)


async def _ignore(_event: OrderPlaced) -> None:
    """Do nothing."""
