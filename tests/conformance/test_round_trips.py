"""A message costs SQL Server one round trip, counted on the wire: its sends, the commit, the next begin and receive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise

import pytest

import rowbus
from rowbus.database.sqlserver import driver
from tests.chaos.proxy import Proxy
from tests.conformance.backend import Backend
from tests.conformance.endpoints import Endpoints, PlaceOrder
from tests.conformance.transport import LIMIT

HEADER, LAST = 8, 1  # of a packet: its length in bytes, the bit of its status on a message's last
MESSAGES = 12
LEARNT = 2  # messages after which the columns of both tables are known


class RoundTrips:
    """The messages of TDS that clients have sent, each of as many packets as it has. Source: [MS-TDS] 2.2.3.1."""

    def __init__(self) -> None:
        self.count = 0

    def watch(self) -> Callable[[bytes], None]:
        """Return what reads the bytes of one connection."""
        unread = bytearray()

        def see(piece: bytes) -> None:
            unread.extend(piece)
            while len(unread) >= HEADER and len(unread) >= (length := int.from_bytes(unread[2:4])):
                self.count += unread[1] & LAST
                del unread[:length]

        return see


@pytest.fixture
def trips() -> RoundTrips:
    return RoundTrips()


@pytest.fixture
def counted(backend: Backend, trips: RoundTrips) -> Iterator[str]:
    """Give the DSN of the way to the server on which round trips are counted."""
    if "encrypt=no" not in backend.dsn:
        pytest.skip("what is encrypted cannot be counted: let the DSN say encrypt=no")
    source = driver.parse(backend.dsn)
    with closing(Proxy(source.port, host=source.host, watch=trips.watch)) as proxy:
        yield backend.dsn.replace(f"@{source.server}/", f"@127.0.0.1:{proxy.port}/")


@pytest.mark.only(
    "SQL Server", standin=False, reason="PostgreSQL's are pipelined, and the stand-in has no wire"
)
@pytest.mark.parametrize("sends", [0, 1])
async def test_each_message_is_one_round_trip(
    endpoints: Endpoints, trips: RoundTrips, counted: str, sends: int
) -> None:
    counts, handled = list[int](), asyncio.Event()
    sales = endpoints.make("Sales", database=counted, concurrency=1, delayed_delivery=None)

    @sales.handler
    async def place(order: PlaceOrder, context: rowbus.Context) -> None:
        counts.append(trips.count)
        for _ in range(sends):
            await context.send("Billing", order)
        if len(counts) == MESSAGES:
            handled.set()

    await endpoints.backend.create_queue("Billing")
    await endpoints.backend.create_queue("Sales")
    async with endpoints.backend.transaction():
        for number in range(MESSAGES):
            await endpoints.backend.client().send("Sales", PlaceOrder(str(number)))
    async with sales:
        await asyncio.wait_for(handled.wait(), LIMIT)

    taken = [after - before for before, after in pairwise(counts)]
    assert taken[LEARNT:] == [1] * (MESSAGES - 1 - LEARNT)
    assert await endpoints.backend.count("Billing") == sends * MESSAGES
