"""Latencies: of the way to the server, of a commit, and of a message whose receiver has nothing else to do.

Invariant: each is timed one after another, so none waits for the one before.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from rowbus.bench import statements
from rowbus.bench.figures import AT_REST, COMMIT, SELECT_ONE, LeftOut, percentiles
from rowbus.bench.measuring import timed
from rowbus.bench.place import QUEUE
from rowbus.bench.receiving import settings_of
from rowbus.bench.sending import MESSAGE, PlaceOrder
from rowbus.endpoint.endpoint import Endpoint
from rowbus.transport.client import AsyncClient

if TYPE_CHECKING:
    from rowbus.bench.figures import Latency
    from rowbus.bench.place import Place

MOST: Final = 2_000  # samples
REST: Final = 0.03  # seconds between two messages, so that the receiver is at rest
PATIENCE: Final = 10.0  # seconds for one message


def round_trip(place: Place, seconds: float) -> Latency:
    """Time `select 1`."""
    statement = statements.select_one()
    with place.session() as session:
        return percentiles(SELECT_ONE, timed(lambda: session.run(statement), seconds, MOST))


def commit(place: Place, seconds: float) -> Latency:
    """Time the insert of one small row in a transaction of its own, as the server's settings have it commit."""
    statement = statements.insert_order(place.schema, MESSAGE.order_id, MESSAGE.total)
    with place.session() as session:
        return percentiles(COMMIT, timed(lambda: session.run(statement), seconds, MOST))


def at_rest(place: Place, seconds: float) -> Latency | LeftOut:
    """Time messages from the call of `send` to that of their handler, in one process."""
    with place.session() as session:
        session.run(statements.truncate(place.queue))
    samples = asyncio.run(_send_one_by_one(place, seconds))
    if not samples:
        return LeftOut(AT_REST, f"no message came within {PATIENCE:.0f} s")
    return percentiles(AT_REST, samples)


async def _send_one_by_one(place: Place, seconds: float) -> list[float]:
    arrived = asyncio.Event()
    endpoint = Endpoint(QUEUE, database=place.dsn, settings=settings_of(place, 1, 1), delayed_delivery=None)

    @endpoint.handler
    async def arrive(_message: PlaceOrder) -> None:
        arrived.set()

    async with endpoint, place.async_session() as session:
        client = AsyncClient(session.connection, schema=place.schema)
        samples: list[float] = []
        until = time.perf_counter() + seconds
        while not samples or time.perf_counter() < until:
            try:
                samples.append(await _time_one(client, arrived))
            except TimeoutError:
                break
    return samples[1:] or samples  # the first one waits for plans and caches


async def _time_one(client: AsyncClient, arrived: asyncio.Event) -> float:
    await asyncio.sleep(REST)
    arrived.clear()
    started = time.perf_counter()
    await client.send(QUEUE, MESSAGE)
    async with asyncio.timeout(PATIENCE):
        await arrived.wait()
    return time.perf_counter() - started
